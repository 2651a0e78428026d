import { resolve } from 'node:path';
import { systemClock } from '../adapters/clock.ts';
import { createManifestParser, findManifestWorker } from '../adapters/manifest-parser.ts';
import { createSecretResolver } from '../adapters/secrets.ts';
import type { DesiredContext } from '../desired/context.ts';
import type { ParseFiles, ParseOptions } from '../desired/parse-files.ts';
import { decodeText } from '../manifest/read-manifests.ts';
import { readValues } from '../manifest/values-file.ts';
import { parseInstant } from '../model/instant.ts';
import { hasErrors, type Problem, raiseWarnings } from '../model/problem.ts';
import type { PassResult } from '../pass/pass.ts';
import type { Logger } from '../ports.ts';
import { exitCodes, Failure, type Invocation, makeFailure, type Settings } from './command.ts';
import { listOwnFiles } from './own-files.ts';
import { parseWithin, readLimits, readPlanScope, readProfile, readRequiredNotes } from './plan-settings.ts';
import { readNamedFile } from './read-file.ts';

/** `--at` or `--since`, in ms since 1970; null without it. Throws a `Failure` for a text that is no time. */
export function readTimeAsked(settings: Settings, name: 'at' | 'since'): number | null {
  const text = settings[name];
  if (text === null) return null;
  const parsed = parseInstant(text, { edge: 'from', timezone: 'UTC' });
  if (parsed.ok) return parsed.value;
  const hint = 'write a date, 2026-12-01, or a time with its zone, 2026-12-01T18:00:00+01:00';
  throw makeFailure('bad-setting', `--${name} ${text} is not a time`, hint);
}

/** What parsing depends on under these settings. */
export function readParseOptions(settings: Settings): ParseOptions {
  return { profile: readProfile(settings), values: readGivenValues(settings), limits: readLimits(settings) };
}

/** The parser of these settings; it remembers what it parsed last, and `remembers` units of work of what it parsed before. */
export function makeParser(settings: Settings, remembers = 0): ParseFiles {
  const options = readParseOptions(settings);
  return createManifestParser(options, {
    workerUrl: findManifestWorker(),
    measure: settings.watch ? 'together' : 'alone',
    remembers,
  });
}

/** Memory (MB) that the process takes beside the threads that read manifests, with some 50,000 rules. */
const processMb = 384;

/** Warns when the memory that a container may use (bytes; 0 where none is set) is less than these settings may need. */
export function warnOfLittleMemory(settings: Settings, available: number, logger: Logger): void {
  const { parseMb } = readLimits(settings);
  const availableMb = Math.floor(available / 1_048_576);
  if (available <= 0 || availableMb >= parseMb + processMb) return;
  const advice = `set limits.parseMb to ${Math.max(16, availableMb - processMb)} in the settings, or give it ${parseMb + processMb} MB`;
  logger.warn(
    `This container may use ${availableMb} MB of memory, and reading manifests alone may take ${parseMb}: ${advice}`,
  );
}

/** What manifests mean under these settings. `root`: where they are files; null when they come from Git. */
export function makeDesiredContext({ settings, terminal }: Invocation, root: string | null): DesiredContext {
  const { secrets, maxExpiry } = settings.file?.nested ?? {};
  return {
    profile: readProfile(settings),
    scope: readPlanScope(settings),
    now: readTimeAsked(settings, 'at') ?? systemClock.wallTime(),
    require: readRequiredNotes(settings),
    ...(maxExpiry === undefined ? {} : { maxExpiryMs: parseWithin(maxExpiry) }),
    overlay: settings.overlay,
    resolveSecret: createSecretResolver({
      environment: terminal.env,
      envNames: secrets?.env ?? [],
      root,
      dirs: (secrets?.dirs ?? []).map((dir) => (settings.file === null ? dir : resolve(settings.file.folder, dir))),
      forbiddenFiles: listOwnFiles(settings),
    }),
  };
}

/** Problems as `--strict` counts them: warnings are errors then. */
export function applyStrict(problems: readonly Problem[], settings: Settings): readonly Problem[] {
  return settings.strict ? raiseWarnings(problems) : problems;
}

/** Problems of a pass with what was known before anything was written as `--strict` counts it; what came of writing is as it is. */
export function applyStrictToPass({ problems, desired, plan }: PassResult, settings: Settings): readonly Problem[] {
  const known = new Set([...(desired?.problems ?? []), ...(plan?.problems ?? [])]);
  return problems.flatMap((problem) => (known.has(problem) ? applyStrict([problem], settings) : [problem]));
}

/** Whether the manifests are invalid, as `--strict` counts. */
export function isInvalid(problems: readonly Problem[], settings: Settings): boolean {
  return hasErrors(applyStrict(problems, settings));
}

const largest = 1_000_000;

/** The values for `${name}` from every `--values` file, later files over earlier ones; null without the option. */
function readGivenValues(settings: Settings): ReadonlyMap<string, string> | null {
  if (settings.values.length === 0) return null;
  const values = new Map<string, string>();
  for (const path of settings.values) {
    const read = readValues(path, readText(path));
    if (read.values === null) throw new Failure(read.problems, exitCodes.invalid);
    for (const [name, value] of read.values) values.set(name, value);
  }
  return values;
}

function readText(path: string): string {
  const name = `the values file ${path}`;
  const text = decodeText(readNamedFile({ path, code: 'bad-values', name, largest, hint: 'check --values' }));
  if (text === null) throw makeFailure('bad-values', `${name} is not UTF-8 text`, 'save it as UTF-8');
  return text;
}
