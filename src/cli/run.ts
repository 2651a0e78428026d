import { answerError, writeAnswer } from './answer.ts';
import { parseArguments } from './arguments.ts';
import { exitCodes, makeFailure, type Terminal } from './command.ts';
import { pickValues, readUsableOutputs } from './output.ts';

/** Runs one command line and gives its exit code. Whatever goes wrong is reported in the outputs asked for. */
export async function runCli(argv: readonly string[], terminal: Terminal): Promise<number> {
  // As far as can be told when arguments or settings are wrong.
  const given = pickValues(argv, '--output');
  let asked = given.length > 0 ? given : [terminal.env['RECONCILE_OUTPUT'] ?? ''].filter(Boolean);
  try {
    const parsed = parseArguments(argv);
    if (parsed.kind === 'text') {
      terminal.stdout(parsed.text);
      return exitCodes.ok;
    }
    const { flags, command } = parsed;
    if (flags.output !== undefined) asked = given;
    const other = command.name === 'watch' && given.find((output) => output !== 'text');
    if (other) throw makeFailure('usage', `a watch has no output as ${other}`, 'use `reconcile plan` or `apply`');
    // With it every TLS connection of the process takes any certificate: the token would go to anybody.
    if (terminal.env['NODE_TLS_REJECT_UNAUTHORIZED'] === '0') {
      const hint = 'unset it; to trust an authority of your own, give --ca-file FILE';
      throw makeFailure('bad-setting', 'NODE_TLS_REJECT_UNAUTHORIZED=0 switches the check of certificates off', hint);
    }
    if (flags.fleet !== undefined) return await (await import('./fleet.ts')).runFleet(parsed, terminal);
    if (flags.target !== undefined || flags.label !== undefined)
      throw makeFailure('usage', '--target and --label choose among a fleet', 'add --fleet FILE');
    const { answerLine, makeWatch } = await import('./line.ts');
    if (command.name === 'watch') return await (await import('./commands/watch.ts')).watch(makeWatch(parsed, terminal));
    const { answer, settings } = await answerLine(parsed, terminal);
    return await writeAnswer(answer, readUsableOutputs(settings?.output ?? asked, terminal.cwd), settings, terminal);
  } catch (error) {
    return await writeAnswer(await answerError(error), readUsableOutputs(asked, terminal.cwd), null, terminal);
  }
}
