import { resolve } from 'node:path';
import { suggest } from '../manifest/suggest.ts';
import { countMs } from '../model/instant.ts';
import { compareText, makeError, type Problem } from '../model/problem.ts';
import { Failure, type OptionValues, type RawValues, type Settings, type Terminal } from './command.ts';
import {
  formatFlag,
  isSetting,
  nameVariable,
  type OptionName,
  type OptionSpec,
  optionNames,
  options,
} from './options.ts';
import type { SettingsFile } from './settings-schema.ts';

/** Where settings come from. `flags` are commander's, `file` the parsed settings file with its folder. */
export interface SettingsSources extends Pick<Terminal, 'env' | 'cwd'> {
  readonly flags: RawValues;
  readonly file: SettingsFile | null;
}

type Parsed = { readonly value: unknown } | { readonly wrong: string };

/** Settles every option; throws a `Failure` with all problems. */
export function settle(sources: SettingsSources): Settings {
  const problems = findMisspeltVariables(sources.env);
  const origins = new Map<OptionName, string>();
  const settings: Partial<Record<OptionName, unknown>> = {};
  for (const name of optionNames.toSorted(compareText)) {
    const found = lookUp(name, sources);
    if (found === null) {
      settings[name] = defaultOf(options[name]);
      continue;
    }
    origins.set(name, found.place);
    const parsed = parseValue(options[name], found.raw, found.folder);
    if ('value' in parsed) settings[name] = parsed.value;
    else problems.push({ code: 'bad-setting', severity: 'error', summary: `${found.origin} ${parsed.wrong}` });
  }
  const noSuspend = sources.flags.noSuspend !== undefined;
  if (noSuspend && sources.flags.suspend !== undefined) {
    problems.push(makeError('usage', '--suspend and --no-suspend exclude each other', 'leave one of them out'));
  }
  if (problems.length > 0) throw new Failure(problems);
  const complete = settings as unknown as OptionValues;
  // The parser calls what begins with `no-` false.
  const suspend = complete.suspend && !noSuspend;
  return { ...complete, suspend, noSuspend, snapshot: complete.snapshot ?? complete.live, file: sources.file, origins };
}

/** Variables that are nearly those of settings: a limit that somebody believes in would not be in force. */
function findMisspeltVariables(env: SettingsSources['env']): Problem[] {
  const names = ['RECONCILE_TOKEN', 'RECONCILE_CONFIG', ...optionNames.filter(isSetting).map(nameVariable)];
  const known = names.map((name) => name.slice(prefix.length));
  const problems: Problem[] = [];
  // Printed secrets inherit from the environment.
  for (const name in env) {
    const own = name.slice(prefix.length);
    if (!name.startsWith(prefix) || known.includes(own)) continue;
    // One letter at most: a job, or a cluster, has variables of its own with that prefix.
    const like = known.filter((one) => one.length <= own.length + 1);
    const near = suggest(own, like, 1);
    if (near) problems.push(makeError('bad-setting', `there is no setting ${name}`, `did you mean ${prefix}${near}?`));
  }
  return problems;
}

const prefix = 'RECONCILE_';

/** What was given for an option, by what name, where, and what paths in it are relative to; null: nothing. */
function lookUp(name: OptionName, { flags, env, cwd, file }: SettingsSources) {
  const [flag, variable] = [formatFlag(name), nameVariable(name)];
  if (flags[name] !== undefined) return { raw: flags[name], origin: flag, place: flag, folder: cwd };
  if (!isSetting(name)) return null;
  const text = env[variable];
  // An empty variable counts as absent: that is how CI systems unset one.
  if (text) return { raw: text, origin: variable, place: variable, folder: cwd };
  const inFile = file?.options[name];
  if (inFile === undefined || file === null) return null;
  const place = `${file.path}:${file.lines?.get(name) ?? 1}`;
  return { raw: inFile, origin: `${name} in the settings file`, place, folder: file.folder };
}

function defaultOf(spec: OptionSpec): unknown {
  if ('default' in spec) return spec.default;
  if (spec.kind === 'list' || spec.kind === 'paths') return [];
  return spec.kind === 'switch' ? false : null;
}

/** Flags and variables are texts, and what stands in the file is of its kind: `settingsSchema` says. */
function parseValue(spec: OptionSpec, raw: unknown, folder: string): Parsed {
  switch (spec.kind) {
    case 'switch':
      return parseSwitch(raw);
    case 'text':
      return findMisfit([String(raw)], spec) ?? { value: String(raw) };
    case 'path':
      return { value: resolve(folder, String(raw)) };
    case 'list':
      return findMisfit(parseList(raw), spec) ?? { value: parseList(raw) };
    case 'paths':
      return { value: parseList(raw).map((path) => resolve(folder, path)) };
    case 'choice':
      // Not quoted: the address of a proxy may hold its password.
      return spec.choices.includes(String(raw))
        ? { value: raw }
        : { wrong: `must be one of ${spec.choices.join(', ')} (${spec.help})` };
    case 'count':
      return parseCount(spec, raw);
    case 'duration':
      return parseDuration(raw);
  }
}

/** The first of the texts that is none of the option's; null: all are. */
function findMisfit(texts: readonly string[], spec: OptionSpec): { readonly wrong: string } | null {
  const choices = 'choices' in spec ? spec.choices : undefined;
  const [shape, wanted] = spec.shape ?? [/^/, `one of ${choices?.join(', ')}`];
  const wrong = texts.find((text) => !shape.test(text) || choices?.includes(text) === false);
  return wrong === undefined ? null : refuse(wanted, wrong);
}

function refuse(wanted: string, raw: unknown): { readonly wrong: string } {
  return { wrong: `must be ${wanted}, not "${raw}"` };
}

function parseSwitch(raw: unknown): Parsed {
  if (/^(?:true|1|yes|on)$/i.test(String(raw))) return { value: true };
  return /^(?:false|0|no|off)$/i.test(String(raw)) ? { value: false } : refuse('true or false', raw);
}

function parseList(raw: unknown): readonly string[] {
  const texts = [raw].flat().flatMap((item) => String(item).split(','));
  return texts.map((item) => item.trim()).filter((item) => item !== '');
}

function parseCount(spec: { readonly min: number; readonly max: number }, raw: unknown): Parsed {
  const value = Number(/^\d{1,9}$/.exec(String(raw))?.[0]);
  if (value >= spec.min && value <= spec.max) return { value };
  return refuse(`a whole number from ${spec.min} to ${spec.max}`, raw);
}

/** `500ms`, `15s`, `10m`, `1h`; at most 24 days, the longest that a timer can hold. */
function parseDuration(raw: unknown): Parsed {
  const ms = /(?:s|m|h)$/.test(String(raw)) ? countMs(String(raw)) : Number.NaN;
  if (ms >= 1 && ms <= 2_147_483_647) return { value: ms };
  return refuse('a time with a unit, such as 500ms, 15s, 10m or 1h', raw);
}
