import type { Limits } from '../../desired/context.ts';
import { isManifestPath } from '../../manifest/manifest.ts';
import { compareText, type Problem } from '../../model/problem.ts';
import { fail, ok, type Result } from '../../model/result.ts';
import type { GitRepository, TreeEntry } from './git-repository.ts';
import { isJsonPath, mostJson, refuseBeyond, refuseTooLarge } from './limits.ts';

/** Bytes of all distinct trees together: about 700,000 entries. */
export const maxTreeBytes = 32 * 1024 * 1024;
const maxTrees = 100_000;

/** What lies below a tree, sorted by path: all of a manifest's name, submodules, links of other names, and JSON files. */
export type TreeListing = Readonly<Record<'manifests' | 'links' | 'json', readonly TreeEntry[]>>;

/** The same of one tree alone, and the trees that may hold more. */
interface Folder extends TreeListing {
  readonly folders: readonly TreeEntry[];
}

/** The listing of each of these trees; each distinct one is read once. Throws a `RangeError` beyond `maxTreeBytes` together. */
export async function listManifestEntries(repository: GitRepository, trees: readonly string[], limits: Limits) {
  const folders = await readFolders(repository, trees, limits);
  return trees.map((tree) => (folders.ok ? listTree(folders.value, tree, limits) : folders));
}

function listTree(folders: ReadonlyMap<string, Folder>, tree: string, limits: Limits): Result<TreeListing, Problem> {
  const [found, json, links]: [TreeEntry[], TreeEntry[], TreeEntry[]] = [[], [], []];
  // How deep trees without manifests are, walked once each: a few nested trees of equal entries stand for billions of paths.
  const empty = new Map<string, number>();
  const collect = (id: string, prefix: string, depth: number): Problem | null => {
    if (depth + (empty.get(id) ?? 0) > limits.depth) return refuseBeyond(limits, 'depth', 'a folder');
    if (empty.has(id)) return null;
    const [before, folder] = [found.length + links.length, folders.get(id) ?? sortEntries([])];
    // No checkout could write a longer one, and a long name counts once for each path through it.
    const names = Object.values(folder).flat();
    if (names.some(({ path }) => prefix.length + path.length > 4096))
      return refuseTooLarge('a path in the commit is longer than 4096 characters');
    for (const entry of folder.manifests) found.push({ ...entry, path: `${prefix}${entry.path}` });
    for (const entry of folder.links) links.push({ ...entry, path: `${prefix}${entry.path}` });
    if (found.length > limits.files) return refuseBeyond(limits, 'files');
    if (links.length > limits.files) return refuseTooLarge(`there are more than ${limits.files} links`);
    for (const entry of folder.json.slice(0, mostJson - json.length))
      json.push({ ...entry, path: `${prefix}${entry.path}` });
    let height = 0;
    for (const inner of folder.folders) {
      const problem = collect(inner.id, `${prefix}${inner.path}/`, depth + 1);
      if (problem !== null) return problem;
      height = Math.max(height, 1 + (empty.get(inner.id) ?? 0));
    }
    if (found.length + links.length === before) empty.set(id, height);
    return null;
  };
  const problem = collect(tree, '', 0);
  const sorted = (list: TreeEntry[]): readonly TreeEntry[] => list.sort((a, b) => compareText(a.path, b.path));
  return problem ? fail(problem) : ok({ manifests: sorted(found), links: sorted(links), json: sorted(json) });
}

/** Reads the trees that may hold manifests, level by level. Throws a `RangeError` when they have too many bytes. */
async function readFolders(repository: GitRepository, trees: readonly string[], limits: Limits) {
  const folders = new Map<string, Folder>();
  let left = maxTreeBytes;
  let level = [...new Set(trees)];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > limits.depth) return fail(refuseBeyond(limits, 'depth', 'a folder'));
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
  const folder: Record<keyof Folder, TreeEntry[]> = { folders: [], manifests: [], links: [], json: [] };
  for (const entry of entries) {
    if (entry.type === 'tree' && !entry.path.startsWith('.')) folder.folders.push(entry);
    // A submodule may hold manifests that this commit does not: left out in silence, their rules would be deleted.
    const isWanted = isManifestPath(entry.path) || (entry.type === 'submodule' && !entry.path.startsWith('.'));
    if (entry.type !== 'tree' && isWanted) folder.manifests.push(entry);
    else if (entry.type === 'link' && !entry.path.startsWith('.')) folder.links.push(entry);
    if (entry.type === 'file' && isJsonPath(entry.path)) folder.json.push(entry);
  }
  return folder;
}
