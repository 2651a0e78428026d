import { relative, resolve, sep } from 'node:path';
import { formatSafeJson } from '../report/json.ts';
import { count } from '../report/summary.ts';
import type { Terminal } from './command.ts';
import type { CommandSpec } from './command-spec.ts';
import { exitCodes } from './exit-code.ts';
import { makeFailure } from './failure.ts';
import { formatFlag } from './options.ts';
import type { RawValues } from './settings.ts';
import { readFleetFile } from './settings-file.ts';
import type { Fleet } from './settings-schema.ts';

type Target = Fleet['targets'][number];

/** One command line on one terminal: what each target gets. */
type RunOne = (argv: readonly string[], terminal: Terminal) => Promise<number>;

/** What a target's run said. */
interface Outcome {
  readonly target: Target;
  /** null: not begun. */
  readonly exit: number | null;
  readonly out: string;
  readonly err: string;
}

/** How many targets are looked at together by commands that do not write. */
const together = 8;

const meanings: Readonly<Record<number, string>> = {
  [exitCodes.ok]: 'well',
  [exitCodes.failed]: 'failed',
  [exitCodes.pending]: 'changes pending',
  [exitCodes.refused]: 'refused',
  [exitCodes.invalid]: 'manifests invalid',
  [exitCodes.partial]: 'partly written',
};

/** The worst first. */
const severity = [
  exitCodes.partial,
  exitCodes.invalid,
  exitCodes.refused,
  exitCodes.failed,
  exitCodes.pending,
  exitCodes.ok,
];

/** Runs a command line on each target of `--fleet`: as often as there are targets, each as if it were alone. Gives the worst exit code. */
export async function runFleet(
  { argv, flags, operands, command }: ParsedLine,
  terminal: Terminal,
  runOne: RunOne,
): Promise<number> {
  const format = formatOf(flags);
  const single = (['save', 'journal', 'stateDir', 'snapshot', 'live'] as const).find(
    (name) => flags[name] !== undefined,
  );
  if (single !== undefined)
    throw makeFailure(
      'usage',
      `${formatFlag(single)} is about one server`,
      'leave it out, or give --base-url and PATH instead of --fleet',
    );
  const writes = command.name === 'apply' || (command.name === '' && flags['plan'] !== true);
  if (operands.length > 0)
    throw makeFailure('usage', '--fleet and PATH exclude each other', 'the fleet file names the path of each target');
  if (writes && flags.yes !== true && flags['dryRun'] !== true)
    throw makeFailure(
      'usage',
      'an apply of a fleet asks nobody',
      'review `reconcile plan --fleet FILE`, then add --yes',
    );
  const file = resolve(terminal.cwd, String(flags.fleet));
  const targets = selectTargets(readTargets(file, terminal.cwd), flags);
  const words = withoutFleet(argv);
  const visit = async (target: Target): Promise<Outcome> => {
    const said = { out: '', err: '' };
    const quiet: Terminal = {
      ...terminal,
      stop: AbortSignal.any([terminal.stop]),
      stdoutIsTerminal: false,
      stderrIsTerminal: false,
      stdinIsTerminal: false,
      stdout: (text) => {
        said.out += text;
      },
      stderr: (text) => {
        said.err += text;
      },
    };
    const exit = await runOne([...words, ...argumentsOf(target, command)], quiet);
    return { target, exit, ...said };
  };
  const outcomes = writes ? await visitInWaves(targets, visit, terminal.stop) : await visitTogether(targets, visit);
  terminal.stdout(format === 'json' ? jsonOf(outcomes) : textOf(outcomes));
  return worstOf(outcomes);
}

/** A parsed command line, and the words that it was parsed from. */
export interface ParsedLine {
  readonly argv: readonly string[];
  readonly flags: RawValues;
  readonly operands: readonly string[];
  readonly command: CommandSpec;
}

function formatOf({ output = [] }: RawValues): 'text' | 'json' {
  const [format = 'text', ...more] = Array.isArray(output) ? output.map(String) : [];
  if (more.length === 0 && (format === 'text' || format === 'json')) return format;
  throw makeFailure('usage', 'a fleet has one output, as text or as json', 'use one of: --output text, --output json');
}

/** The targets with the defaults, their paths absolute. */
function readTargets(file: string, cwd: string): readonly Target[] {
  const { targets, defaults = {} } = readFleetFile(file);
  const at = (path: string): string => resolve(file, '..', path);
  return targets.map((own) => {
    const { caFile, config, path, tokenFile, values, ...rest } = { ...defaults, ...own };
    const manifests = path === undefined ? undefined : at(path);
    if (manifests !== undefined && `${file}${sep}`.startsWith(`${manifests}${sep}`)) {
      const hint = 'anyone who edits manifests could name another server: keep it in another folder';
      throw makeFailure('bad-setting', `the fleet file lies among the manifests of ${own.name}`, hint);
    }
    return {
      ...rest,
      labels: { ...defaults.labels, ...own.labels },
      ...(caFile === undefined ? {} : { caFile: at(caFile) }),
      ...(config === undefined ? {} : { config: at(config) }),
      ...(tokenFile === undefined ? {} : { tokenFile: at(tokenFile) }),
      ...(values === undefined ? {} : { values: values.map(at) }),
      ...(manifests === undefined ? {} : { path: relative(cwd, manifests) || '.' }),
    };
  });
}

function selectTargets(targets: readonly Target[], { target = [], label = [] }: RawValues): readonly Target[] {
  const [names, labels] = [target, label].map((list) => (Array.isArray(list) ? list.map(String) : []));
  const missing = names?.find((name) => targets.every((one) => one.name !== name));
  if (missing !== undefined) {
    const hint = `its targets are ${targets.map(({ name }) => name).join(', ')}`;
    throw makeFailure('usage', `the fleet has no target ${missing}`, hint);
  }
  const wanted = targets.filter(
    (one) =>
      (names?.length === 0 || names?.includes(one.name)) &&
      labels?.every((text) => `${one.labels?.[text.split('=')[0] ?? '']}` === text.slice(text.indexOf('=') + 1)),
  );
  if (wanted.length > 0) return wanted;
  throw makeFailure('usage', 'no target of the fleet has these labels', 'labels are written --label KEY=VALUE');
}

const fleetFlags = ['--fleet', '--target', '--label'];

/** The words of the command line without those that choose targets. */
function withoutFleet(argv: readonly string[]): readonly string[] {
  return argv.filter(
    (word, index) => !fleetFlags.includes(word.split('=')[0] ?? '') && !fleetFlags.includes(argv[index - 1] ?? ''),
  );
}

/** What a person would type for this target. Each must name its token's file: a variable would send one token to all servers. */
function argumentsOf(target: Target, command: CommandSpec): readonly string[] {
  const { name, baseUrl, tokenFile, caFile, config, overlay, values = [], path } = target;
  const asksServer = command.options.includes('tokenFile');
  if (asksServer && tokenFile === undefined)
    throw makeFailure('bad-setting', `the target ${name} has no tokenFile`, 'name it there, or under `defaults`');
  if (command.operands !== '' && path === undefined)
    throw makeFailure('bad-setting', `the target ${name} has no path`, 'name its manifests there, or under `defaults`');
  const pairs = [
    ...(asksServer
      ? [
          ['baseUrl', '--base-url', baseUrl],
          ['tokenFile', '--token-file', tokenFile],
        ]
      : []),
    ['caFile', '--ca-file', caFile],
    ['config', '--config', config],
    ['overlay', '--overlay', overlay],
    ...values.map((file) => ['values', '--values', file]),
  ];
  const flags = pairs.flatMap(([option, flag, value]) =>
    value === undefined || !isTaken(command, option) ? [] : [`${flag}=${value}`],
  );
  return [...flags, ...(command.operands === '' || path === undefined ? [] : [path])];
}

function isTaken({ options }: CommandSpec, option: string | undefined): boolean {
  return option === 'config' || options.some((name) => name === option);
}

/** Commands that do not write visit every target. */
async function visitTogether(targets: readonly Target[], visit: (target: Target) => Promise<Outcome>) {
  const outcomes: Outcome[] = [];
  const left = [...targets.entries()];
  const work = async (): Promise<void> => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) outcomes[next[0]] = await visit(next[1]);
  };
  await Promise.all(Array.from({ length: Math.min(together, targets.length) }, work));
  return outcomes;
}

/**
 * One target after another, wave by wave. A target that was refused, or that something was written to and that is not as it should be,
 * stops all that have not begun. One that could not be read or planned lets its wave go on, and no later wave.
 */
async function visitInWaves(
  targets: readonly Target[],
  visit: (target: Target) => Promise<Outcome>,
  stop: AbortSignal,
) {
  const outcomes: Outcome[] = [];
  const waves = [...targets.entries()].sort(([a, one], [b, other]) => (one.wave ?? 1) - (other.wave ?? 1) || a - b);
  let lastWave = Number.POSITIVE_INFINITY;
  for (const [index, target] of waves) {
    const wave = target.wave ?? 1;
    const outcome = wave > lastWave || stop.aborted ? { target, exit: null, out: '', err: '' } : await visit(target);
    outcomes[index] = outcome;
    if (outcome.exit === exitCodes.refused || outcome.exit === exitCodes.partial) lastWave = 0;
    else if (outcome.exit !== exitCodes.ok && outcome.exit !== null) lastWave = Math.min(lastWave, wave);
  }
  return outcomes;
}

function worstOf(outcomes: readonly Outcome[]): number {
  return severity.find((code) => outcomes.some(({ exit }) => exit === code)) ?? exitCodes.failed;
}

function verdictOf({ exit }: Outcome): string {
  return exit === null ? 'not begun' : `${meanings[exit] ?? 'failed'} (exit ${exit})`;
}

/** One line a target; then what they said, told once where several said the same. */
function textOf(outcomes: readonly Outcome[]): string {
  const width = outcomes.reduce((most, { target }) => Math.max(most, target.name.length), 0);
  const lines = outcomes.map((one) => `${one.target.name.padEnd(width)}  ${verdictOf(one)}\n`);
  const said = new Map<string, Outcome[]>();
  for (const outcome of outcomes) {
    if (outcome.exit === null) continue;
    const key = `${outcome.exit} ${withoutOwn(outcome)}`;
    said.set(key, [...(said.get(key) ?? []), outcome]);
  }
  const details = [...said.values()].map((alike) => {
    const [first] = alike;
    const names = alike.map(({ target }) => target.name).join(', ');
    const said = first === undefined ? '' : first.err + first.out;
    if (alike.length === 1) return `\n== ${names} ==\n${said}`;
    return `\n== ${count(alike.length, 'target')}, the same: ${names} ==\nAs ${first?.target.name} says it:\n${said}`;
  });
  const worst = outcomes.filter(({ exit }) => exit === worstOf(outcomes)).map(({ target }) => target.name);
  return `${lines.join('')}${details.join('')}\n${count(outcomes.length, 'target')}; exit ${worstOf(outcomes)}, for ${worst.join(', ')}.\n`;
}

/** What a target said, to be compared, without what is its own: its address, the files of its operator, ids, digests and times. */
function withoutOwn({ target, out, err }: Outcome): string {
  return `${err}${out}`
    .replaceAll(target.baseUrl, 'the server')
    .replaceAll(target.path ?? '\0', 'PATH')
    .replace(/\b[0-9a-f]{32,}\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, '…')
    .replace(/\b[0-9.]+ (?:ms|s)\b/g, '…');
}

function jsonOf(outcomes: readonly Outcome[]): string {
  return formatSafeJson({
    format_version: '1.0',
    exit: worstOf(outcomes),
    targets: outcomes.map(({ target, exit, out }) => ({
      name: target.name,
      labels: target.labels ?? {},
      exit,
      document: exit === null || out === '' ? null : JSON.parse(out),
    })),
  });
}
