import { join, relative, resolve } from 'node:path';
import { isBelow, resolveLinks } from '../../adapters/secrets.ts';
import { type Failure, makeFailure, type ParsedLine, type RawValues, type Settings } from '../command.ts';
import { defaultSidecar } from '../commands/status.ts';
import type { OptionName } from '../options.ts';
import { readFleetFile } from '../settings-file.ts';
import type { Fleet } from '../settings-schema.ts';

/** One server of a fleet, with the defaults; paths are absolute, but for `path`, which is as somebody would type it. */
export type Target = Omit<Fleet['targets'][number], 'labels' | 'wave'> & {
  readonly labels: Readonly<Record<string, string>>;
  readonly wave: number;
};

/** How a roll-out goes from wave to wave; `soak` in ms. */
export type Rollout = Pick<Fleet, 'maxParallel' | 'paused' | 'abort'> & { readonly soak: number };

/** The file, its targets that were chosen, and how a roll-out goes. */
export type ChosenFleet = ReturnType<typeof readFleet>;

/** Reads the fleet file that the flags name; throws a `Failure` with what is wrong in it. */
export function readFleet(flags: RawValues, cwd: string) {
  const file = resolve(cwd, String(flags.fleet));
  const { targets, defaults = {}, soak = 0, ...roll } = readFleetFile(file);
  const at = (path: string): string => resolve(file, '..', path);
  const all = targets.map((own): Target => {
    const { wave = 1, ...one } = { ...defaults, ...own };
    // With --git-url it is a path inside the repository.
    const folder = typeof flags.gitUrl === 'string' ? undefined : one.path && at(one.path);
    if (folder !== undefined) refuseAmongManifests(file, folder, own.name);
    return {
      ...one,
      wave,
      labels: { ...defaults.labels, ...own.labels },
      caFile: one.caFile && at(one.caFile),
      config: one.config && at(one.config),
      tokenFile: one.tokenFile && at(one.tokenFile),
      values: one.values?.map(at),
      path: folder === undefined ? one.path : relative(cwd, folder) || '.',
    };
  });
  return { file, rollout: { ...roll, soak }, targets: selectTargets(all, flags) };
}

/** Whoever edits manifests must not choose where tokens go, neither by a link. */
function refuseAmongManifests(file: string, manifests: string, name: string): void {
  const waysTo = (path: string): readonly string[] => [path, resolveLinks(path) ?? path];
  const isInside = waysTo(file).some((one) => waysTo(manifests).some((folder) => isBelow(folder, one)));
  if (!isInside) return;
  const hint = 'anyone who edits manifests could name another server: keep it in another folder';
  throw makeFailure('bad-setting', `the fleet file lies among the manifests of ${name}`, hint);
}

function selectTargets(targets: readonly Target[], { target = [], label = [] }: RawValues): readonly Target[] {
  const [names = [], wanted = []] = [target, label].map((list) => (Array.isArray(list) ? list.map(String) : []));
  const missing = names.find((name) => targets.every((one) => one.name !== name));
  if (missing !== undefined) {
    const hint = `its targets are ${targets.map(({ name }) => name).join(', ')}`;
    throw makeFailure('usage', `the fleet has no target ${missing}`, hint);
  }
  const chosen = targets.filter(({ name, labels }) => {
    const own = Object.entries(labels).map((label) => label.join('='));
    return (names.length === 0 || names.includes(name)) && wanted.every((one) => own.includes(one));
  });
  if (chosen.length > 0) return chosen;
  throw makeFailure('usage', 'no target of the fleet has these labels', 'labels are written --label KEY=VALUE');
}

/** What a person would type for this target. Each must name its token's file: a variable would send one token to all servers. */
export function makeTargetLine(target: Target, { command, flags, operands }: ParsedLine): ParsedLine {
  const { fleet: _fleet, target: _target, label: _label, ...others } = flags;
  const { name, baseUrl, tokenFile, caFile, config = others.config, overlay, values, path } = target;
  if (command.name === 'status') {
    const [sidecar = defaultSidecar] = operands;
    return { command, flags: others, operands: [`${sidecar.replace(/\/*$/, '')}/targets/${name}`] };
  }
  const takes = (option: OptionName): boolean => command.options.includes(option);
  const fail = (what: string, hint: string): Failure =>
    makeFailure('bad-setting', `the target ${name} has no ${what}`, hint);
  if (takes('tokenFile') && tokenFile === undefined) throw fail('tokenFile', 'name it there, or under `defaults`');
  const isGit = flags.gitUrl !== undefined;
  if (command.operands !== '' && path === undefined && !isGit)
    throw fail('path', 'name its manifests there, or under `defaults`');
  const own: RawValues = { baseUrl, tokenFile, caFile, overlay, values, ...(isGit ? { gitPath: path } : {}) };
  const taken = Object.entries(own).filter(([option, value]) => value !== undefined && takes(option as OptionName));
  return {
    command,
    flags: { ...others, config, ...Object.fromEntries(taken) },
    operands: command.operands === '' || path === undefined || isGit ? [] : [path],
  };
}

/** The settings as they count for one target: its own scope, state, journal and lease. */
export function adjustSettings(settings: Settings, { name, scope }: Target, fleetFile: string): Settings {
  const { file, stateDir, journal, lease, origins } = settings;
  const without = { path: fleetFile, folder: resolve(fleetFile, '..'), options: {}, nested: {} };
  const nested = { ...file?.nested, ...(scope === undefined ? {} : { scope }) };
  return {
    ...settings,
    file: scope === undefined ? file : { ...(file ?? without), nested },
    stateDir: stateDir === null ? null : join(stateDir, 'targets', name),
    // As if it was typed: hints of what to type name the folder of the target.
    origins: stateDir === null ? origins : new Map(origins).set('stateDir', '--state-dir'),
    journal: journal === null ? null : `${journal}.${name}`,
    // As a Lease of Kubernetes may be named; no two targets have the same.
    lease: lease === 'none' ? lease : `${lease}-${name.toLowerCase().replaceAll('_', '-')}`,
  };
}
