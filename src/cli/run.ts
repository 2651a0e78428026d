import { answerError, writeAnswer } from './answer.ts';
import { parseArguments } from './arguments.ts';
import { exitCodes, makeFailure, type RawValues, type Terminal } from './command.ts';
import { answerLine, makeWatch } from './line.ts';
import { readRequestedOutputs, textOnStdout } from './output.ts';

/** Runs one command line and gives its exit code. Whatever goes wrong is reported in the outputs asked for. */
export async function runCli(argv: readonly string[], terminal: Terminal): Promise<number> {
  let flags: RawValues = {};
  try {
    const parsed = parseArguments(argv);
    if (parsed.kind === 'text') {
      terminal.stdout(parsed.text);
      return exitCodes.ok;
    }
    flags = parsed.flags;
    const { name, formats } = parsed.command;
    refuseOpenTls(terminal.env);
    if (flags.fleet !== undefined) return await (await import('./fleet.ts')).runFleet(parsed, terminal);
    if (flags.target !== undefined || flags.label !== undefined)
      throw makeFailure('usage', '--target and --label choose among a fleet', 'add --fleet FILE');
    if (name === 'watch') return await (await import('./commands/watch.ts')).watch(makeWatch(parsed, terminal));
    const { answer, settings } = await answerLine(parsed, terminal);
    const asked = readRequestedOutputs(argv, (settings ?? flags).output, terminal);
    const outputs = formats.length === 0 && answer.failed !== true ? [textOnStdout] : asked;
    return await writeAnswer(answer, outputs, settings, terminal);
  } catch (error) {
    return await writeAnswer(
      await answerError(error),
      readRequestedOutputs(argv, flags.output, terminal),
      null,
      terminal,
    );
  }
}

/** With this variable every TLS connection of the process takes any certificate: the token would go to anybody. */
function refuseOpenTls(env: Terminal['env']): void {
  if (env['NODE_TLS_REJECT_UNAUTHORIZED'] !== '0') return;
  const hint = 'unset it; to trust an authority of your own, give --ca-file FILE';
  throw makeFailure('bad-setting', 'NODE_TLS_REJECT_UNAUTHORIZED=0 switches the check of certificates off', hint);
}
