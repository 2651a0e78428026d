import { answerError, writeAnswer } from './answer.ts';
import { parseArguments } from './arguments.ts';
import { exitCodes, makeFailure, type RawValues, type Settings, type Terminal } from './command.ts';
import { answerLine, makeWatch } from './line.ts';
import { readRequestedOutputs, textOnStdout } from './output.ts';

/** Runs one command line and gives its exit code. Whatever goes wrong is reported in the outputs asked for. */
export async function runCli(argv: readonly string[], terminal: Terminal): Promise<number> {
  let flags: RawValues = {};
  let settings: Settings | null = null;
  const settle = (read: Settings): Settings => {
    settings = read;
    return read;
  };
  const asked = () => readRequestedOutputs(argv, (settings ?? flags).output, terminal);
  try {
    const parsed = parseArguments(argv);
    if (parsed.kind === 'text') {
      terminal.stdout(parsed.text);
      return exitCodes.ok;
    }
    flags = parsed.flags;
    refuseOpenTls(terminal.env);
    if (flags.fleet !== undefined) {
      const { runFleet } = await import('./fleet.ts');
      return await runFleet(parsed, terminal);
    }
    refuseTargets(flags);
    if (parsed.command.name === 'watch')
      return await (await import('./commands/watch.ts')).watch(makeWatch(parsed, terminal));
    const answer = await answerLine(parsed, terminal, settle);
    const outputs = parsed.command.formats.length === 0 ? [textOnStdout] : asked();
    return await writeAnswer(answer, outputs, settings, terminal);
  } catch (error) {
    return await writeAnswer(await answerError(error), asked(), settings, terminal);
  }
}

/** With this variable every TLS connection of the process takes any certificate: the token would go to anybody. */
function refuseOpenTls(env: Terminal['env']): void {
  if (env['NODE_TLS_REJECT_UNAUTHORIZED'] !== '0') return;
  const hint = 'unset it; to trust an authority of your own, give --ca-file FILE';
  throw makeFailure('bad-setting', 'NODE_TLS_REJECT_UNAUTHORIZED=0 switches the check of certificates off', hint);
}

function refuseTargets(flags: RawValues): void {
  if (flags.target === undefined && flags.label === undefined) return;
  throw makeFailure('usage', '--target and --label choose among a fleet', 'add --fleet FILE');
}
