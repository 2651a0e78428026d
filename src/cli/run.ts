import { answerError, writeAnswer } from './answer.ts';
import { parseArguments } from './arguments.ts';
import type { Answer, SharedParts, Terminal } from './command.ts';
import { listOptions, type ParsedLine } from './command-spec.ts';
import { exitCodes } from './exit-code.ts';
import { makeFailure } from './failure.ts';
import { enforcementOptions, formatFlag, watchOptionNames } from './options.ts';
import { readCommandOutputs, readRequestedOutputs, textOnStdout } from './output.ts';
import { keepSecrets, type PrintedSecrets } from './secrets-from.ts';
import { findSettingsFile, type RawValues, type Settings, settle as settleOptions } from './settings.ts';
import type { WatchInvocation } from './watch/invocation.ts';

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
    if (flags['watch'] === true) refuseToPlan(flags);
    if (flags.fleet !== undefined) {
      const { runFleet } = await import('./fleet.ts');
      return await runFleet(parsed, terminal, { answerLine, makeWatch });
    }
    refuseTargets(flags);
    if (flags['watch'] === true)
      return await (await import('./commands/watch.ts')).watch(makeWatch(parsed, terminal, (read) => read));
    const answer = await answerLine(parsed, terminal, settle);
    const outputs = parsed.command.formats.length === 0 ? [textOnStdout] : asked();
    return await writeAnswer(answer, outputs, settings, terminal);
  } catch (error) {
    const answer = await answerError(error);
    await writeAnswer(answer, asked(), settings, terminal);
    return answer.exit;
  }
}

/** The answer of a command about one server. `settle` sees its settings before they are used, and may change them. */
async function answerLine(
  { command, flags, operands }: ParsedLine,
  started: Terminal,
  settle: (read: Settings) => Settings,
  shared?: SharedParts,
): Promise<Answer> {
  const { terminal, renew } = keepSecrets(started);
  if (command.name === '') refuseWatchOptions(flags);
  const asksServer = listOptions(command).includes('tokenFile');
  const settings = settle(await loadSettings(flags, terminal, asksServer ? renew : null));
  if (flags['plan'] === true && settings.snapshot !== null) refuseToLookAtKernel(flags);
  readCommandOutputs(command, settings.output, terminal);
  const { run } = await command.load();
  return await run({ operands, settings, terminal, ...(shared === undefined ? {} : { shared }) });
}
/** With this variable every TLS connection of the process takes any certificate: the token would go to anybody. */
function refuseOpenTls(env: Terminal['env']): void {
  if (env['NODE_TLS_REJECT_UNAUTHORIZED'] !== '0') return;
  const hint = 'unset it; to trust an authority of your own, give --ca-file FILE';
  throw makeFailure('bad-setting', 'NODE_TLS_REJECT_UNAUTHORIZED=0 switches the check of certificates off', hint);
}

/** `--watch` writes: beside a flag that promises not to, nothing at all is done. */
function refuseToPlan(flags: RawValues): void {
  const planning = (['plan', 'save', 'snapshot', 'live'] as const).find((name) => flags[name] !== undefined);
  if (planning === undefined) return;
  const hint = 'to watch and write nothing, give --suspend: the plan is on /status';
  throw makeFailure('usage', `--${planning} and --watch exclude each other`, hint);
}

/** A watch of one server: its settings are loaded later, and again on SIGHUP. */
function makeWatch(
  { flags, operands }: ParsedLine,
  started: Terminal,
  settle: (read: Settings) => Settings,
): WatchInvocation {
  const { terminal, renew } = keepSecrets(started);
  const load = async (): Promise<Settings> => settle(await loadSettings(flags, terminal, renew));
  return { flags, operands, load, renewSecrets: renew, terminal };
}

function refuseTargets(flags: RawValues): void {
  if (flags.target === undefined && flags.label === undefined) return;
  throw makeFailure('usage', '--target and --label choose among a fleet', 'add --fleet FILE');
}

/** A flag that only a watch heeds would be ignored; variables and a settings file may serve a watch too. */
function refuseWatchOptions(flags: RawValues): void {
  const watching = watchOptionNames.find((name) => flags[name] !== undefined);
  if (watching === undefined) return;
  throw makeFailure('usage', `${formatFlag(watching)} goes with watch only`, 'reconcile watch PATH, or leave it out');
}

/** A snapshot tells of no kernel. Only flags are refused: a settings file may serve applies too. */
function refuseToLookAtKernel(flags: RawValues): void {
  const looking = enforcementOptions.find((name) => flags[name] !== undefined);
  if (looking === undefined) return;
  const hint = 'plan without the snapshot to compare with the kernel, or leave the flag out';
  throw makeFailure('usage', `${formatFlag(looking)} and a plan against a snapshot exclude each other`, hint);
}

/** The settings of one run, read again when it is told to (SIGHUP); `renew` gets the secrets that they name a command for. */
export async function loadSettings(
  flags: RawValues,
  terminal: Terminal,
  renew: PrintedSecrets['renew'] | null = null,
): Promise<Settings> {
  const sources = { flags, env: terminal.env, cwd: terminal.cwd };
  const path = findSettingsFile(sources);
  // Loaded on demand: most runs have no settings file, and its schema is not small.
  const file = path === null ? null : (await import('./settings-file.ts')).readSettingsFile(path);
  const settings = settleOptions({ ...sources, file });
  if (file?.nested.secretsFrom === undefined || renew === null || settings.snapshot !== null) return settings;
  await renew(file);
  return settleOptions({ ...sources, file });
}
