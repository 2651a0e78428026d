import { createHash } from 'node:crypto';
import { normalize, resolve } from 'node:path';
import { systemClock } from '../adapters/clock.ts';
import { createManifestParser, type ParserMeans } from '../adapters/manifest-parser.ts';
import { createSecretResolver } from '../adapters/secrets.ts';
import type { Desired, DesiredContext } from '../desired/context.ts';
import { assemble } from '../desired/desired.ts';
import type { ParseFiles, ParseOptions } from '../desired/parse-files.ts';
import { isManifestPath } from '../manifest/manifest.ts';
import { digestFiles } from '../model/digest-files.ts';
import { parseInstant } from '../model/instant.ts';
import { joinSome } from '../model/printable.ts';
import { hasErrors, makeNote, type Place, type Problem, raiseWarnings } from '../model/problem.ts';
import { ok } from '../model/result.ts';
import type { PassResult } from '../pass/pass.ts';
import type { Logger } from '../ports.ts';
import { type Invocation, makeFailure, mustRead, type Settings } from './command.ts';
import { type NamedManifest, type PathOperand, readFolder, readPathOperand } from './path-operand.ts';
import { readLimits, readPlanScope, readProfile, readRequiredNotes } from './plan-settings.ts';
import { readBeside, readGivenValues, readSideValues } from './values.ts';

/** `--at`, `--since` or `--until`, in ms since 1970; null without it. Throws a `Failure` for a text that is no time. */
export function readTimeAsked(settings: Settings, name: 'at' | 'since' | 'until'): number | null {
  const text = settings[name];
  if (text === null) return null;
  const parsed = parseInstant(text, name === 'until' ? 'until' : 'from', 'UTC');
  if (parsed.ok) return parsed.value;
  throw makeFailure('bad-setting', `--${name} ${text} is not a time`, parsed.error);
}

/** What parsing depends on under these settings. */
export function readParseOptions(settings: Settings, values = readGivenValues(settings)): ParseOptions {
  return { profile: readProfile(settings), values, limits: readLimits(settings) };
}

/** The parser of these settings; see `createManifestParser`. */
export function makeParser(settings: Settings, means: ParserMeans = {}): ParseFiles {
  return createManifestParser(readParseOptions(settings), means);
}

/** One side of a comparison: a folder as it is now, or the manifests below a folder as a revision has them. */
export interface Side {
  readonly written: string;
  readonly folder: string;
  readonly revision?: string;
}

/** The parser for what stands for the manifests below `path`, with the values files of that side; `plain`: the one without values. */
export async function makeSideParser(invocation: Invocation, path: string, side: Side, plain: ParseFiles) {
  const { settings, terminal } = invocation;
  const { written, folder, revision: ref } = side;
  if (settings.values.length === 0) return { parse: plain, problems: [] };
  if (ref === undefined && folder === path) return { parse: makeParser(settings), problems: [] };
  const { readFilesAtRef } = await import('../adapters/source/git-ref.ts');
  const request = { directory: folder, files: settings.values, environment: terminal.env, signal: terminal.stop };
  const found =
    ref === undefined
      ? ok(settings.values.map((file) => readBeside(path, folder, file)))
      : await readFilesAtRef({ ...request, ref });
  const { values, problems } = readSideValues(settings, path, written, mustRead(found));
  return { parse: createManifestParser(readParseOptions(settings, values)), problems };
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
    ...(maxExpiry === undefined ? {} : { maxExpiryMs: maxExpiry }),
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

/** What the manifests below a path come to, without a server. */
export type OfflineBuild = Desired & { readonly revision: string };

/** Reads and builds the manifests below `path` without server and token; e-mail addresses stay unresolved. Exit 4 without a source. */
export async function buildOffline(invocation: Invocation, path: string): Promise<OfflineBuild> {
  const { files, revision } = await readFolder(invocation, path);
  const parsed = await makeParser(invocation.settings)(files);
  return { ...assemble(parsed, null, makeDesiredContext(invocation, path)), revision };
}

/** The manifests at the PATH operand, built, with their problems as `--strict` counts them. */
export async function buildOperand(invocation: Invocation, command: string): Promise<OfflineBuild & PathOperand> {
  const operand = readPathOperand(invocation, command);
  const built = await buildOffline(invocation, operand.path);
  return { ...built, ...operand, problems: applyStrict(built.problems, invocation.settings) };
}

/** Builds single files: names that they do not define are one note. `root`: what secret files are relative to. */
export async function buildFiles(invocation: Invocation, manifests: readonly NamedManifest[], root: string) {
  // Below a directory a hidden file or one of another ending is no manifest; one that was named is.
  const shownAs = new Map<string, string>();
  const files = manifests.map(({ shown, bytes }, index) => {
    const name = shown === '-' ? 'stdin' : `file-${index}`;
    const path = isManifestPath(normalize(shown)) ? normalize(shown) : `${name}.yaml`;
    shownAs.set(path, shown);
    return { path, bytes, hash: createHash('sha256').update(bytes).digest('hex') };
  });
  const built = assemble(await makeParser(invocation.settings)(files), null, makeDesiredContext(invocation, root));
  const rename = (place: Place): Place => ({ ...place, file: shownAs.get(place.file) ?? place.file });
  const problems = built.problems.map(({ place, related, ...problem }): Problem => {
    const others = related?.map((one) => ({ ...one, place: rename(one.place) }));
    return { ...problem, ...(place && { place: rename(place) }), ...(others && { related: others }) };
  });
  const unknown = problems.filter(({ code }) => definedElsewhere.test(code));
  const names = new Set(unknown.flatMap(({ summary }) => /`[^`]+`/.exec(summary)?.[0] ?? []));
  const summary = `These files do not define ${joinSome([...names], 5)}, which they name.`;
  const hint = 'Other files may define them: reconcile validate DIRECTORY checks that.';
  const note = unknown.length === 0 ? [] : [makeNote('unknown-names', summary, hint)];
  const others = problems.filter(({ code }) => !definedElsewhere.test(code));
  return { ...built, revision: digestFiles(files), problems: [...others, ...note] };
}

const definedElsewhere = /^unknown-(?:network|group|user|overlay)$/;

/** Where Kubernetes mounts the credentials of the process's own service account. */
export const serviceAccount = '/var/run/secrets/kubernetes.io/serviceaccount';

const ownFiles = [
  ...(['tokenFile', 'caFile', 'journal', 'gitTokenFile', 'gitSshKey'] as const),
  ...(['listenTokenFile', 'listenTlsKey', 'webhookSecretFile'] as const),
];

/** Files of the program's own that no manifest may name as a secret: whoever writes manifests could publish them. */
export function listOwnFiles(settings: Settings): readonly string[] {
  const { path = [], folder = '', nested = {} } = settings.file ?? {};
  const { kubernetes, notify = [] } = nested;
  const files = notify.flatMap((target) => {
    if (target.type === 'github-status') return target.tokenFile;
    return [target.urlFile ?? [], target.type === 'generic' ? (target.secretFile ?? []) : []].flat();
  });
  const inFile = [path, kubernetes?.tokenFile ?? [], files].flat().map((one) => resolve(folder, one));
  return [...ownFiles.flatMap((name) => settings[name] ?? []), ...inFile, `${serviceAccount}/token`];
}
