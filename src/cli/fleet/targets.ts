import { realpathSync } from 'node:fs';
import { join, relative, resolve, sep } from 'node:path';
import type { Companions, Terminal } from '../command.ts';
import type { CommandSpec } from '../command-spec.ts';
import { makeFailure } from '../failure.ts';
import type { PrintedSecrets } from '../secrets-from.ts';
import { parseDuration, type RawValues, type Settings } from '../settings.ts';
import { readFleetFile } from '../settings-file.ts';
import type { Fleet } from '../settings-schema.ts';

/** A parsed command line, and the words that it was parsed from. */
export interface ParsedLine {
  readonly argv: readonly string[];
  readonly flags: RawValues;
  readonly operands: readonly string[];
  readonly command: CommandSpec;
}

/** How a command line is run for each target. */
export interface Runner {
  readonly runOne: (argv: readonly string[], terminal: Terminal, among: Companions) => Promise<number>;
  readonly loadSettings: (flags: RawValues, terminal: Terminal, renew?: PrintedSecrets['renew']) => Promise<Settings>;
}

/** One server of a fleet, with the defaults; paths are absolute, but for `path`, which is as somebody would type it. */
export type Target = Omit<Fleet['targets'][number], 'labels' | 'wave'> & {
  readonly labels: Readonly<Record<string, string>>;
  readonly wave: number;
};

/** How a roll-out goes from wave to wave. */
export interface Rollout {
  readonly soakMs: number;
  /** null: all of a wave. */
  readonly maxParallel: number | null;
  readonly isPaused: boolean;
  /** How the revision begins that is given up; null: none is. */
  readonly abort: string | null;
}

/** The file, its targets that were chosen, and how a roll-out goes. */
export interface ChosenFleet {
  readonly file: string;
  readonly targets: readonly Target[];
  readonly rollout: Rollout;
}

/** Reads the fleet file that the flags name; throws a `Failure` with what is wrong in it. */
export function readFleet(flags: RawValues, cwd: string): ChosenFleet {
  const file = resolve(cwd, String(flags.fleet));
  const { targets, defaults = {}, soak, maxParallel = null, paused = false, abort = null } = readFleetFile(file);
  const at = (path: string): string => resolve(file, '..', path);
  const isGit = typeof flags.gitUrl === 'string';
  const all = targets.map((own): Target => {
    const { caFile, config, path, tokenFile, values, wave = 1, ...rest } = { ...defaults, ...own };
    if (path !== undefined && !isGit) refuseAmongManifests(file, at(path), own.name);
    return {
      ...rest,
      wave,
      labels: { ...defaults.labels, ...own.labels },
      ...(caFile === undefined ? {} : { caFile: at(caFile) }),
      ...(config === undefined ? {} : { config: at(config) }),
      ...(tokenFile === undefined ? {} : { tokenFile: at(tokenFile) }),
      ...(values === undefined ? {} : { values: values.map(at) }),
      // With --git-url it is a path inside the repository.
      ...(path === undefined ? {} : { path: isGit ? path : relative(cwd, at(path)) || '.' }),
    };
  });
  const parsed = parseDuration(soak ?? '');
  const soakMs = 'value' in parsed ? Number(parsed.value) : 0;
  return {
    file,
    targets: selectTargets(all, flags),
    rollout: { soakMs, maxParallel, isPaused: paused, abort },
  };
}

/** Whoever edits manifests must not choose where tokens go, neither by a link. */
function refuseAmongManifests(file: string, manifests: string, name: string): void {
  const real = (path: string): string => {
    try {
      return realpathSync(path);
    } catch {
      return path;
    }
  };
  const isInside = [file, real(file)].some((one) =>
    [manifests, real(manifests)].some((folder) =>
      `${one}${sep}`.startsWith(folder.endsWith(sep) ? folder : folder + sep),
    ),
  );
  if (!isInside) return;
  const hint = 'anyone who edits manifests could name another server: keep it in another folder';
  throw makeFailure('bad-setting', `the fleet file lies among the manifests of ${name}`, hint);
}

function selectTargets(targets: readonly Target[], { target = [], label = [] }: RawValues): readonly Target[] {
  const [names = [], labels = []] = [target, label].map((list) => (Array.isArray(list) ? list.map(String) : []));
  const missing = names.find((name) => targets.every((one) => one.name !== name));
  if (missing !== undefined) {
    const hint = `its targets are ${targets.map(({ name }) => name).join(', ')}`;
    throw makeFailure('usage', `the fleet has no target ${missing}`, hint);
  }
  const pairs = labels.map((text) => [
    text.slice(0, Math.max(0, text.indexOf('='))),
    text.slice(text.indexOf('=') + 1),
  ]);
  if (pairs.some(([key]) => key === '')) throw makeFailure('usage', 'a label is KEY=VALUE', 'such as --label env=prod');
  const wanted = targets.filter(
    (one) =>
      (names.length === 0 || names.includes(one.name)) &&
      pairs.every(([key = '', value]) => Object.hasOwn(one.labels, key) && one.labels[key] === value),
  );
  if (wanted.length > 0) return wanted;
  throw makeFailure('usage', 'no target of the fleet has these labels', 'labels are written --label KEY=VALUE');
}

/** The flags that choose targets. */
export const choosingFlags = ['--fleet', '--target', '--label'];

/** The words of the command line without these flags and their values. */
export function withoutFlags(argv: readonly string[], names: readonly string[]): readonly string[] {
  return argv.filter(
    (word, index) => !names.includes(word.split('=')[0] ?? '') && !names.includes(argv[index - 1] ?? ''),
  );
}

/** What a person would give for this target. */
export interface TargetLine {
  readonly flags: RawValues;
  readonly operands: readonly string[];
}

/** The options and the PATH of a target. Each must name its token's file: a variable would send one token to all servers. */
export function describeTarget(target: Target, { options, operands }: CommandSpec, { gitUrl }: RawValues): TargetLine {
  const { name, baseUrl, tokenFile, caFile, config, overlay, values, path } = target;
  const isGit = gitUrl !== undefined;
  const asksServer = options.includes('tokenFile');
  if (asksServer && tokenFile === undefined)
    throw makeFailure('bad-setting', `the target ${name} has no tokenFile`, 'name it there, or under `defaults`');
  if (operands !== '' && path === undefined && !isGit)
    throw makeFailure('bad-setting', `the target ${name} has no path`, 'name its manifests there, or under `defaults`');
  const own: RawValues = { baseUrl, tokenFile, caFile, config, overlay, values, ...(isGit ? { gitPath: path } : {}) };
  const taken = Object.entries(own).filter(
    ([option, value]) => value !== undefined && (option === 'config' || options.some((known) => known === option)),
  );
  const isNamed = operands !== '' && path !== undefined && !isGit;
  return { flags: Object.fromEntries(taken), operands: isNamed ? [path] : [] };
}

/** The settings as they count for one target: its own scope, state, journal and lease. */
export function adjustSettings(settings: Settings, { name, scope }: Target, fleetFile: string): Settings {
  const { file, stateDir, journal, lease } = settings;
  const without = { path: fleetFile, folder: resolve(fleetFile, '..'), options: {}, nested: {} };
  const nested = { ...file?.nested, ...(scope === undefined ? {} : { scope }) };
  return {
    ...settings,
    file: scope === undefined ? file : { ...(file ?? without), nested },
    stateDir: stateDir === null ? null : join(stateDir, 'targets', name),
    journal: journal === null ? null : `${journal}.${name}`,
    lease: lease === 'none' ? lease : `${lease}-${foldName(name)}`,
  };
}

/** A name as a Lease of Kubernetes may have it; no two targets have the same. */
function foldName(name: string): string {
  return name.toLowerCase().replaceAll('_', '-');
}
