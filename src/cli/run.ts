import type { Problem } from '../model/problem.ts';
import { getErrorCode } from '../model/result.ts';
import { answerFailure, writeAnswer } from './answer.ts';
import { parseArguments } from './arguments.ts';
import type { Answer, Companions, Terminal } from './command.ts';
import { type CommandSpec, listOptions } from './command-spec.ts';
import { exitCodes } from './exit-code.ts';
import { Failure, makeFailure } from './failure.ts';
import { enforcementOptions, formatFlag, watchOptionNames } from './options.ts';
import { checkWritable, type Output, readOutputs, readRequestedOutputs, textOnStdout } from './output.ts';
import { keepSecrets, type PrintedSecrets } from './secrets-from.ts';
import { findSettingsFile, type RawValues, type Settings, settle } from './settings.ts';

/** Runs one command line and gives its exit code. Whatever goes wrong is reported in the outputs asked for. */
export async function runCli(argv: readonly string[], started: Terminal, among?: Companions): Promise<number> {
  const { terminal, renew } = keepSecrets(started);
  let flags: RawValues = {};
  let settings: Settings | null = null;
  const write = (answer: Answer, outputs: readonly Output[]): Promise<number> => {
    among?.hear(answer);
    return writeAnswer(answer, outputs, settings, terminal);
  };
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
      return await runFleet({ ...parsed, argv }, terminal, { runOne: runCli, loadSettings });
    }
    refuseTargets(flags);
    if (flags['watch'] === true) {
      refuseToPlan(flags);
      const { watch } = await import('./commands/watch.ts');
      return await watch({
        operands: parsed.operands,
        flags,
        load: () => loadSettings(parsed.flags, terminal, renew),
        renewSecrets: renew,
        terminal,
      });
    }
    if (parsed.command.name === '') refuseWatchOptions(flags);
    const asksServer = listOptions(parsed.command).includes('tokenFile');
    settings = await loadSettings(flags, terminal, asksServer ? renew : null);
    settings = among?.adjust(settings) ?? settings;
    if (flags['plan'] === true && settings.snapshot !== null) refuseToLookAtKernel(flags);
    checkOutputs(parsed.command, settings, terminal);
    const command = await parsed.command.load();
    const shared = among === undefined ? {} : { shared: among.shared };
    const answer = await command.run({ operands: parsed.operands, settings, terminal, ...shared });
    const outputs = parsed.command.formats.length === 0 ? [textOnStdout] : readOutputs(settings.output, terminal.cwd);
    return await write(answer, outputs);
  } catch (error) {
    const failure = error instanceof Failure ? error : new Failure([await internalError(error)]);
    await write(answerFailure(failure), readRequestedOutputs(argv, (settings ?? flags).output, terminal));
    return failure.exitCode;
  }
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

/** Outputs that the command cannot give are said before it does anything. */
function checkOutputs({ name, formats }: CommandSpec, settings: Settings, { cwd, env }: Terminal): void {
  if (formats.length === 0) return;
  const outputs = readOutputs(settings.output, cwd);
  const wrong = outputs.find(({ format }) => !formats.includes(format));
  if (wrong === undefined) {
    checkWritable(outputs, env['GITHUB_STEP_SUMMARY'] ?? '');
    return;
  }
  const hint = `its formats are ${formats.join(', ')}; markdown and github are formats of plans and checks`;
  throw makeFailure('usage', `\`reconcile ${name}\` has no output as ${wrong.format}`, hint);
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
  const settings = settle({ ...sources, file });
  if (file?.nested.secretsFrom === undefined || renew === null || settings.snapshot !== null) return settings;
  await renew(file);
  return settle({ ...sources, file });
}

/** A mistake in this program: its place, never its message or stack, which could hold anything. */
async function internalError(error: unknown): Promise<Problem> {
  const code = getErrorCode(error, '');
  if (code === 'EMFILE' || code === 'ENFILE') {
    const hint = 'raise the limit: ulimit -n, LimitNOFILE in a unit';
    return { code: 'open-files', severity: 'error', summary: `this process may open no more files (${code})`, hint };
  }
  const { name, stack, message } = error instanceof Error ? error : { name: typeof error, stack: '', message: '' };
  if (code === 'reader-died') {
    const { explainReadFailure } = await import('./read-failure.ts');
    return explainReadFailure({ code, status: null, message }, () => '', 0);
  }
  const [, frame] = /\(?(?:file:\/\/)?([^()\s]+:\d+:\d+)\)?/.exec(stack?.split('\n    at ')[1] ?? '') ?? [];
  const where = frame === undefined ? name : `${name} at ${frame}`;
  const hint =
    'this is a mistake in reconcile: please report it with this line; what was sent before is in the journal, if one is kept';
  const summary = `reconcile failed in a way it should not (${where})`;
  return { code: 'internal-error', severity: 'error', summary, hint };
}
