import type { Limits } from '../../desired/context.ts';
import { isManifestPath } from '../../manifest/manifest.ts';
import { compareText, makeError, type Problem } from '../../model/problem.ts';
import { fail, ok, type Result } from '../../model/result.ts';
import type { GitAnswer, GitRepository, ObjectHead, TreeEntry } from './git-repository.ts';
import { isJsonPath, mostJson, refuseBeyond, refuseTooLarge } from './limits.ts';

/** Bytes of all distinct trees together: about 700,000 entries. */
export const maxTreeBytes = 32 * 1024 * 1024;
const maxTrees = 100_000;
/** In characters; no checkout could write a longer one. */
const longestPath = 4096;
/** Links on the way to one file, as in Linux, and rounds of reading what links lead through. */
const mostHops = 40;
const maxRounds = 100;

/** What lies below a tree, sorted by path: all of a manifest's name, submodules, and JSON files. */
export interface TreeListing {
  readonly manifests: readonly TreeEntry[];
  readonly json: readonly TreeEntry[];
}

/** The same of one tree alone, with the trees and links that may hold more; sorted by name. */
interface Folder {
  readonly entries: readonly TreeEntry[];
  readonly json: readonly TreeEntry[];
}

export interface ListRequest {
  readonly repository: GitRepository;
  /** The root of the manifests, and what may be read of them. */
  readonly settings: { readonly path: readonly string[]; readonly limits: Limits };
  /** Brings objects that a partial fetch left out, in one request. */
  readonly fetchObjects: (ids: readonly string[]) => GitAnswer<null>;
}

/** A tree in a commit, whose root links may lead through. */
interface Place {
  readonly commit: string;
  readonly tree: string;
}

/** What was read of the repository. What a walk misses counts as empty, and is read before the next walk, all of it together. */
class Known {
  readonly #folders = new Map<string, Folder>();
  readonly #names = new Map<string, ReadonlyMap<string, TreeEntry>>();
  readonly #targets = new Map<string, readonly string[] | null>();
  #missing = { folders: new Set<string>(), names: new Set<string>(), targets: new Set<string>() };
  #left = maxTreeBytes;

  isWhole(): boolean {
    return Object.values(this.#missing).every(({ size }) => size === 0);
  }

  folderOf(tree: string): Folder {
    if (!this.#folders.has(tree)) this.#missing.folders.add(tree);
    return this.#folders.get(tree) ?? { entries: [], json: [] };
  }

  /** Every entry of a tree, for links that lead through it. */
  namesOf(tree: string): ReadonlyMap<string, TreeEntry> {
    if (!this.#names.has(tree)) this.#missing.names.add(tree);
    return this.#names.get(tree) ?? new Map();
  }

  /** The names on the way that a link says, the last one first; null where it leads out of any repository. */
  targetOf(link: string): readonly string[] | null {
    if (!this.#targets.has(link)) this.#missing.targets.add(link);
    return this.#targets.get(link) ?? null;
  }

  async load({ repository, settings: { limits }, fetchObjects }: ListRequest): Promise<Problem | null> {
    const { folders, names, targets } = this.#missing;
    this.#missing = { folders: new Set(), names: new Set(), targets: new Set() };
    for (const [index, { entries, bytes }] of (await repository.readTrees([...names], this.#left)).entries()) {
      this.#left -= bytes;
      this.#names.set([...names][index] ?? '', new Map([...entries].map((entry) => [entry.path, entry])));
    }
    const heads = await readHeads(repository, [...targets], fetchObjects);
    if (!heads.ok) return heads.error;
    const short = [...targets].filter((_, index) => (heads.value[index]?.bytes ?? 0) <= longestPath);
    const texts = await repository.readBlobs(short, maxTreeBytes);
    for (const id of targets) this.#targets.set(id, readTarget(texts.get(id)?.toString() ?? ''));
    return await this.#loadFolders(repository, [...folders], limits);
  }

  /** Reads the trees that may hold manifests, level by level. Throws a `RangeError` when they have too many bytes. */
  async #loadFolders(repository: GitRepository, trees: readonly string[], limits: Limits): Promise<Problem | null> {
    let level = trees;
    for (let depth = 0; level.length > 0; depth++) {
      if (depth > limits.depth) return refuseBeyond(limits, 'depth', 'a folder');
      if (this.#folders.size + level.length > maxTrees)
        return refuseTooLarge(`there are more than ${maxTrees} folders`);
      const below = new Set<string>();
      for (const [index, { entries, bytes }] of (await repository.readTrees(level, this.#left)).entries()) {
        const folder = sortEntries(entries);
        this.#folders.set(level[index] ?? '', folder);
        for (const { id, type } of folder.entries) if (type === 'tree') below.add(id);
        this.#left -= bytes;
      }
      level = [...below].filter((id) => !this.#folders.has(id));
    }
    return null;
  }
}

/** The listing of a folder in each of these commits, links followed inside it as in a work tree; each distinct tree is read once. */
export async function listManifestEntries(
  request: ListRequest,
  places: readonly Place[],
): Promise<readonly Result<TreeListing, Problem>[]> {
  const known = new Known();
  for (const { tree } of places) known.folderOf(tree);
  for (let round = 0; round < maxRounds; round++) {
    const problem = await known.load(request);
    if (problem !== null) return places.map(() => fail(problem));
    const walked = new Map<string, TreeWalk>();
    const walks = places.map(({ commit, tree }) => {
      const before = walked.get(tree);
      if (before?.isAlike) return before;
      const walk = new TreeWalk(known, { commit, tree }, request.settings);
      walked.set(tree, walk);
      return walk;
    });
    if (known.isWhole()) return walks.map(({ listing }) => listing);
  }
  return places.map(() => fail(refuseTooLarge('links in the commit lead through too many others')));
}

function readTarget(text: string): readonly string[] | null {
  const names = text.split('/').filter((name) => name !== '' && name !== '.');
  return text === '' || text.startsWith('/') ? null : names.reverse();
}

/** A folder on the way: where it is listed, where it is, and the folders above it. */
interface Way {
  readonly path: string;
  readonly real: string;
  readonly above: readonly string[];
}

/** Walks a tree as directory.ts walks a directory. */
class TreeWalk {
  readonly listing: Result<TreeListing, Problem>;
  /** Whether the tree alone decides: no link leads out of it. */
  isAlike = true;
  readonly #found: TreeEntry[] = [];
  readonly #json: TreeEntry[] = [];
  #links = 0;
  /** Where each file and folder is listed: one that two names lead to counts once. */
  readonly #seen = new Map<string, string>();
  /** How deep trees without manifests are, walked once each: a few nested trees of equal entries stand for billions of paths. */
  readonly #empty = new Map<string, number>();
  readonly #known: Known;
  readonly #commit: string;
  readonly #root: readonly string[];
  readonly #limits: Limits;

  constructor(known: Known, { commit, tree }: Place, { path, limits }: ListRequest['settings']) {
    this.#known = known;
    this.#commit = commit;
    this.#root = path;
    this.#limits = limits;
    const problem = this.#collect(tree, { path: '', real: '', above: [] });
    const sorted = (list: TreeEntry[]): readonly TreeEntry[] => list.sort((a, b) => compareText(a.path, b.path));
    this.listing = problem ? fail(problem) : ok({ manifests: sorted(this.#found), json: sorted(this.#json) });
  }

  #collect(id: string, { path, real, above }: Way): Problem | null {
    if (above.length + (this.#empty.get(id) ?? 0) > this.#limits.depth)
      return refuseBeyond(this.#limits, 'depth', 'a folder');
    if (this.#empty.has(id)) return null;
    const before = this.#found.length + this.#links;
    const { entries, json } = this.#known.folderOf(id);
    // A long name counts once for each path through it.
    if ([...entries, ...json].some((entry) => path.length + entry.path.length > longestPath))
      return refuseTooLarge(`a path in the commit is longer than ${longestPath} characters`);
    for (const entry of json.slice(0, mostJson - this.#json.length))
      this.#json.push({ ...entry, path: join(path, entry.path) });
    let height = 0;
    const below = [...above, real];
    for (const entry of entries) {
      const way = { path: join(path, entry.path), real: join(real, entry.path), above: below };
      const problem = entry.type === 'link' ? this.#follow(way) : this.#take(entry, way);
      if (problem !== null) return problem;
      if (entry.type === 'tree') height = Math.max(height, 1 + (this.#empty.get(entry.id) ?? 0));
    }
    if (this.#found.length + this.#links === before) this.#empty.set(id, height);
    return null;
  }

  /** Takes what lies somewhere, unless it was listed before under another name. */
  #take(entry: TreeEntry, { path, real, above }: Way): Problem | null {
    const isTree = entry.type === 'tree';
    if (isTree && above.includes(real)) return refuseLink(path, 'leads back to a directory above it');
    if ((this.#seen.get(real) ?? path) !== path) return null;
    this.#seen.set(real, path);
    if (isTree) return this.#collect(entry.id, { path, real, above });
    this.#found.push({ ...entry, path });
    return this.#found.length > this.#limits.files ? refuseBeyond(this.#limits, 'files') : null;
  }

  #follow(way: Way): Problem | null {
    this.#links += 1;
    if (this.#links > this.#limits.files) return refuseTooLarge(`there are more than ${this.#limits.files} links`);
    const isManifest = isManifestPath(way.path);
    const place = this.#resolve([...this.#root, ...way.real.split('/')]);
    const entry = place?.at(-1);
    if (entry === undefined)
      return isManifest && this.#known.isWhole() ? refuseLink(way.path, 'leads to nothing in the commit') : null;
    if (entry.type === 'file' && !isManifest) return null;
    const names = place?.map(({ path }) => path) ?? [];
    if (this.#root.some((name, index) => names[index] !== name))
      return refuseLink(way.path, 'leads out of the directory; links are followed inside it only');
    return this.#take(entry, { ...way, real: names.slice(this.#root.length).join('/') });
  }

  /** The entries from the root of the commit to what lies at these names; null where there is nothing. */
  #resolve(names: readonly string[]): readonly TreeEntry[] | null {
    const place: TreeEntry[] = [];
    let left = names.toReversed();
    let hops = 0;
    for (let name = left.pop(); name !== undefined; name = left.pop()) {
      const { id, type } = place.at(-1) ?? { id: `${this.#commit}^{tree}`, type: 'tree' };
      if (type !== 'tree') return type === 'submodule' ? place : null;
      const entry = this.#known.namesOf(id).get(name);
      if (name === '..') {
        this.isAlike &&= place.length > this.#root.length;
        if (place.pop() === undefined) return null;
      } else if (entry?.type === 'link') {
        hops += 1;
        const target = this.#known.targetOf(entry.id);
        if (target === null || hops > mostHops) return null;
        left = left.concat(target);
      } else if (entry === undefined) return null;
      else place.push(entry);
    }
    return place;
  }
}

const join = (folder: string, name: string): string => (folder === '' ? name : `${folder}/${name}`);

function refuseLink(path: string, what: string): Problem {
  const hint = 'commit the files themselves in its place, or remove the link; nothing is deleted because of this';
  return makeError('not-a-regular-file', `${path} is a link that ${what}`, hint);
}

/** What these objects are, after a fetch of those that a partial fetch left out. */
export async function readHeads(
  repository: GitRepository,
  ids: readonly string[],
  fetchObjects: ListRequest['fetchObjects'],
): GitAnswer<readonly (ObjectHead | null)[]> {
  const heads = await repository.headsOf(ids);
  const absent = ids.filter((_, index) => heads[index] === null);
  if (absent.length === 0) return ok(heads);
  const fetched = await fetchObjects(absent);
  return fetched.ok ? ok(await repository.headsOf(ids)) : fetched;
}

function sortEntries(entries: Iterable<TreeEntry>): Folder {
  const folder = { entries: [] as TreeEntry[], json: [] as TreeEntry[] };
  for (const entry of entries) {
    // A submodule may hold manifests that this commit does not: left out in silence, their rules would be deleted.
    const isWanted = entry.type === 'file' ? isManifestPath(entry.path) : !entry.path.startsWith('.');
    if (isWanted) folder.entries.push(entry);
    else if (entry.type === 'file' && isJsonPath(entry.path)) folder.json.push(entry);
  }
  folder.entries.sort((a, b) => compareText(a.path, b.path));
  return folder;
}
