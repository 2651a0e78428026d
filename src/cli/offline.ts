import { createHash } from 'node:crypto';
import { normalize } from 'node:path';
import { createDirectorySource } from '../adapters/source/directory.ts';
import type { Desired } from '../desired/context.ts';
import { assemble } from '../desired/desired.ts';
import { isManifestPath } from '../manifest/manifest.ts';
import { digestFiles } from '../model/digest-files.ts';
import type { Problem } from '../model/problem.ts';
import { exitCodes, Failure, type Invocation } from './command.ts';
import type { NamedManifest } from './manifest-files.ts';
import { makeDesiredContext, makeParser } from './manifests.ts';
import { readLimits } from './plan-settings.ts';

/** What the manifests below a path come to, without a server. */
export interface OfflineBuild extends Desired {
  readonly revision: string;
}

/** Reads and builds the manifests below `path` without server and token; e-mail addresses stay unresolved. Exit 4 without a source. */
export async function buildOffline(invocation: Invocation, path: string): Promise<OfflineBuild> {
  const { settings, terminal } = invocation;
  const { content, problems } = await createDirectorySource(path, readLimits(settings)).read(terminal.stop);
  if (content === null) throw new Failure(problems, exitCodes.invalid);
  const parsed = await makeParser(settings)(content.files);
  return { ...assemble(parsed, null, makeDesiredContext(invocation, path)), revision: content.revision };
}

/** Builds single files: names that they do not define are one note. `root`: what secret files are relative to. */
export async function buildFiles(
  invocation: Invocation,
  manifests: readonly NamedManifest[],
  root: string,
): Promise<OfflineBuild> {
  // Below a directory a hidden file or one of another ending is no manifest; one that was named is.
  const shownAs = new Map<string, string>();
  const files = manifests.map(({ shown, bytes }, index) => {
    const path = isManifestPath(normalize(shown)) ? normalize(shown) : `file-${index}.yaml`;
    shownAs.set(path, shown);
    return { path, bytes, hash: createHash('sha256').update(bytes).digest('hex') };
  });
  const parsed = await makeParser(invocation.settings)(files);
  const built = assemble(parsed, null, makeDesiredContext(invocation, root));
  const problems = built.problems.map((problem) => renamePlace(problem, shownAs));
  const unknown = problems.filter(({ code }) => definedElsewhere.has(code));
  const others = problems.filter(({ code }) => !definedElsewhere.has(code));
  return { ...built, revision: digestFiles(files), problems: [...others, ...noteOf(unknown)] };
}

function renamePlace(problem: Problem, shownAs: ReadonlyMap<string, string>): Problem {
  const { place } = problem;
  return place === undefined
    ? problem
    : { ...problem, place: { ...place, file: shownAs.get(place.file) ?? place.file } };
}

const definedElsewhere: ReadonlySet<string> = new Set([
  'unknown-network',
  'unknown-group',
  'unknown-user',
  'unknown-overlay',
]);

function noteOf(unknown: readonly Problem[]): readonly Problem[] {
  if (unknown.length === 0) return [];
  const named = unknown.flatMap(({ summary }) => /`([^`]+)`/.exec(summary)?.[1] ?? []);
  const names = [...new Set(named)].map((name) => `\`${name}\``);
  const more = names.length > 5 ? ` and ${names.length - 5} more` : '';
  return [
    {
      code: 'unknown-names',
      severity: 'note',
      summary: `These files do not define ${names.slice(0, 5).join(', ')}${more}, which they name.`,
      hint: 'Other files may define them: reconcile validate DIRECTORY checks that.',
    },
  ];
}
