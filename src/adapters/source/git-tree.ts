import type { Limits } from '../../desired/context.ts';
import { isManifestPath } from '../../manifest/manifest.ts';
import { compareText, type Problem } from '../../model/problem.ts';
import { fail, ok, type Result } from '../../model/result.ts';
import type { GitRepository, TreeEntry } from './git-repository.ts';
import { findTooDeep, findTooMany, isJsonPath, mostJson, refuseTooLarge } from './limits.ts';

/** Bytes of all distinct trees together: about 700,000 entries. */
export const maxTreeBytes = 32 * 1024 * 1024;
const maxTrees = 100_000;

/** What lies below a tree, sorted by path: entries that have a manifest's name, and JSON files beside them. */
export interface TreeListing {
  readonly manifests: readonly TreeEntry[];
  readonly json: readonly TreeEntry[];
}

/** The same of one tree alone, and the trees that may hold more. */
interface Folder extends TreeListing {
  readonly folders: readonly TreeEntry[];
}

/**
 * What lies below each of these trees: entries that have a manifest's name, of whatever type, and all submodules. Each distinct tree is
 * read once, and paths are made only after they are counted: a few nested trees of equal entries stand for billions of paths and cost
 * nothing. Throws a `RangeError` when the trees have more than `maxTreeBytes`.
 */
export async function listManifestEntries(
  repository: GitRepository,
  trees: readonly string[],
  limits: Limits,
): Promise<readonly Result<TreeListing, Problem>[]> {
  const folders = await readFolders(repository, trees, limits);
  if (!folders.ok) return trees.map(() => folders);
  const sums = new Map<string, Sum>();
  return trees.map((tree) => listTree({ folders: folders.value, sums, maxDepth: limits.depth }, tree, limits));
}

function listTree(summing: Summing, tree: string, limits: Limits): Result<TreeListing, Problem> {
  const { folders, sums } = summing;
  const all = sumUp(summing, tree, 0);
  if (all === null) return fail(findTooDeep('a folder', limits));
  if (all.manifests > limits.files) return fail(findTooMany(limits));
  const [found, json]: [TreeEntry[], TreeEntry[]] = [[], []];
  const collect = (id: string, prefix: string): void => {
    const folder = folders.get(id);
    for (const entry of folder?.manifests ?? []) found.push({ ...entry, path: `${prefix}${entry.path}` });
    for (const entry of folder?.json ?? [])
      if (json.length < mostJson) json.push({ ...entry, path: `${prefix}${entry.path}` });
    for (const inner of folder?.folders ?? []) {
      if (sums.get(inner.id)?.manifests !== 0) collect(inner.id, `${prefix}${inner.path}/`);
    }
  };
  collect(tree, '');
  const sorted = (list: TreeEntry[]): readonly TreeEntry[] => list.sort((a, b) => compareText(a.path, b.path));
  return ok({ manifests: sorted(found), json: sorted(json) });
}

/** Reads the trees that may hold manifests, level by level. Throws a `RangeError` when they have too many bytes. */
async function readFolders(
  repository: GitRepository,
  trees: readonly string[],
  limits: Limits,
): Promise<Result<ReadonlyMap<string, Folder>, Problem>> {
  const folders = new Map<string, Folder>();
  let left = maxTreeBytes;
  let level = [...new Set(trees)];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > limits.depth) return fail(findTooDeep('a folder', limits));
    if (folders.size + level.length > maxTrees) return fail(refuseTooLarge(`there are more than ${maxTrees} folders`));
    const read = await repository.readTrees(level, left);
    const below = new Set<string>();
    for (const [index, { entries, bytes }] of read.entries()) {
      const folder = sortEntries(entries);
      folders.set(level[index] ?? '', folder);
      for (const { id } of folder.folders) below.add(id);
      left -= bytes;
    }
    level = [...below].filter((id) => !folders.has(id));
  }
  return ok(folders);
}

function sortEntries(entries: Iterable<TreeEntry>): Folder {
  const folder: Record<keyof Folder, TreeEntry[]> = { folders: [], manifests: [], json: [] };
  for (const entry of entries) {
    if (entry.type === 'tree' && !entry.path.startsWith('.')) folder.folders.push(entry);
    // A submodule may hold manifests that this commit does not: left out in silence, their rules would be deleted.
    const isWanted = isManifestPath(entry.path) || (entry.type === 'submodule' && !entry.path.startsWith('.'));
    if (entry.type !== 'tree' && isWanted) folder.manifests.push(entry);
    if (entry.type === 'file' && isJsonPath(entry.path)) folder.json.push(entry);
  }
  return folder;
}

/** What lies below a tree: how many manifests, and how many levels of folders. */
interface Sum {
  readonly manifests: number;
  readonly height: number;
}

interface Summing {
  readonly folders: ReadonlyMap<string, Folder>;
  readonly sums: Map<string, Sum>;
  readonly maxDepth: number;
}

/** Sums up each distinct tree once; null when a path goes deeper than the limit. */
function sumUp(summing: Summing, id: string, depth: number): Sum | null {
  const { folders, sums, maxDepth } = summing;
  const known = sums.get(id);
  if (depth + (known?.height ?? 0) > maxDepth) return null;
  if (known !== undefined) return known;
  let [manifests, height] = [folders.get(id)?.manifests.length ?? 0, 0];
  for (const inner of folders.get(id)?.folders ?? []) {
    const below = sumUp(summing, inner.id, depth + 1);
    if (below === null) return null;
    manifests += below.manifests;
    height = Math.max(height, below.height + 1);
  }
  const sum = { manifests, height };
  sums.set(id, sum);
  return sum;
}
