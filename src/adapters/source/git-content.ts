import { createHash } from 'node:crypto';
import { lstatSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import type { Limits } from '../../desired/context.ts';
import { isManifestPath } from '../../manifest/manifest.ts';
import { decodeText } from '../../manifest/read-manifests.ts';
import { escapeControls } from '../../model/printable.ts';
import { makeError, type Problem } from '../../model/problem.ts';
import { attempt, fail, ok, type Result } from '../../model/result.ts';
import { encrypted } from '../../model/secret.ts';
import type { SourceContent, SourceFile } from '../../ports.ts';
import { control } from './git-address.ts';
import { type GitAnswer, GitError, type GitRepository, type TreeEntry } from './git-repository.ts';
import { listManifestEntries, maxTreeBytes } from './git-tree.ts';
import { describeJson, noteJson, refuseBeyond } from './limits.ts';
import { findInWorkTree } from './work-tree.ts';

/** Which manifests of a commit to read, and how much of them. */
export interface ContentSettings {
  /** Components of the path inside the repository: the root of the manifests. */
  readonly path: readonly string[];
  readonly limits: Limits;
  /** Other files that manifests name relative to themselves, by their path from the root. */
  readonly references: (manifests: readonly SourceFile[]) => Promise<readonly string[]>;
}

export interface ContentRequest {
  readonly repository: GitRepository;
  readonly commit: string;
  readonly settings: ContentSettings;
  /** Brings objects that a partial fetch left out, in one request. */
  readonly fetchObjects: (ids: readonly string[]) => GitAnswer<null>;
}

/** The manifests of a commit, and the files that they name; all of them or a problem. Throws a `RangeError` for too many folders. */
export async function loadContent(request: ContentRequest): GitAnswer<SourceContent> {
  const { repository, settings, commit } = request;
  const { limits } = settings;
  const [root] = await findFolders(repository, [commit], settings.path);
  if (typeof root !== 'string') {
    const summary = `${settings.path.join('/')} is not a directory in commit ${commit.slice(0, 12)}`;
    return fail(makeError('git-path-missing', summary, nothingDeleted));
  }
  const [entries = ok({ manifests: [], links: [], json: [] })] = await listManifestEntries(repository, [root], limits);
  if (!entries.ok) return entries;
  const { manifests: chosen, links, json } = entries.value;
  const bad = findBadEntry([...chosen, ...links]);
  if (bad !== null) return fail(bad);
  const manifests = await readFiles(request, [...chosen, ...links]);
  if (!manifests.ok) return manifests;
  const linked = (await findLinkedFolders(repository, settings.path, [{ commit, links }])).get(commit);
  if (linked) return fail(linked);
  if (manifests.value.length === 0)
    return fail(makeError('no-manifests', `${noYaml}${describeJson(json)}`, nothingDeleted));
  const others: TreeEntry[] = [];
  for (const path of new Set(await settings.references(manifests.value))) {
    const parts = path.split('/');
    if (isManifestPath(path) || parts.includes('..')) continue;
    const [entry] = await findBelow(repository, [{ tree: root, path: parts }]);
    if (entry?.type === 'file') others.push({ ...entry, path });
  }
  const named = await readFiles(request, others);
  if (!named.ok) return named;
  // By their names: nothing is fetched for a note.
  const notes = json.flatMap(({ path }) => noteJson(path, null));
  return ok({ revision: commit, files: [...manifests.value, ...named.value], notes });
}

/** A file by its path from the root in each of these commits; null where it is no regular file of a megabyte, undefined without it. */
export async function readFileAt(repository: GitRepository, commits: readonly string[], path: readonly string[]) {
  const asked = commits.map((commit) => ({ tree: treeOf(commit), path }));
  const found = await findBelow(repository, asked);
  const ids = [...new Set(found.flatMap((entry) => (entry?.type === 'file' ? entry.id : [])))];
  const heads = await repository.headsOf(ids);
  const small = ids.filter((_, index) => (heads[index]?.bytes ?? 0) <= largestFile);
  const blobs = await repository.readBlobs(small, Math.max(largestFile, maxTreeBytes));
  return found.map((entry) => (entry ? (blobs.get(entry.id) ?? null) : undefined));
}

const largestFile = 1_000_000;

/** These files in each commit, null where one is not there; undefined of one out of the work tree of `directory`, or tracked nowhere. */
export async function readFilesAt(
  repository: GitRepository,
  commits: readonly string[],
  { directory, files }: { readonly directory: string; readonly files: readonly string[] },
): Promise<readonly (readonly (Buffer | null | undefined)[])[]> {
  const head = files.length === 0 ? null : await repository.commitOf('HEAD');
  const all = [...commits, ...(head === null ? [] : [head])];
  const read = files.map(async (file) => {
    const path = findInWorkTree(directory, file);
    const found = path === null ? [] : await readFileAt(repository, all, path);
    // What is made anew each time is no commit's.
    return found.every((one) => one === undefined) ? null : found;
  });
  const known = await Promise.all(read);
  return commits.map((_, index) => known.map((one) => (one === null ? undefined : (one[index] ?? null))));
}

/** The files of these entries, in their order; what a partial fetch left out is fetched first. */
async function readFiles({ repository, settings, fetchObjects }: ContentRequest, entries: readonly TreeEntry[]) {
  const { limits } = settings;
  const ids = [...new Set(entries.map(({ id }) => id))];
  let heads = await repository.headsOf(ids);
  const absent = ids.filter((_, index) => heads[index] === null);
  if (absent.length > 0) {
    const fetched = await fetchObjects(absent);
    if (!fetched.ok) return fetched;
    heads = await repository.headsOf(ids);
  }
  const sizes = new Map(ids.map((id, index) => [id, heads[index]?.bytes ?? 0]));
  const long = entries.find(({ id }) => (sizes.get(id) ?? 0) > limits.fileBytes);
  if (long !== undefined) return fail(refuseBeyond(limits, 'fileBytes', long.path));
  const total = entries.reduce((sum, { id }) => sum + (sizes.get(id) ?? 0), 0);
  if (total > limits.totalBytes) return fail(refuseBeyond(limits, 'totalBytes'));
  const hashOf = (_: string, bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');
  return makeFiles(entries, await repository.readBlobs(ids, total), hashOf);
}

/** Whether a file lies in Git in a form that only a key, or another store, makes readable. */
export function isLocked({ path, bytes }: SourceFile): boolean {
  const text = isManifestPath(path) ? '' : decodeText(bytes);
  return text === null || encrypted.test(text);
}

/** The files of a commit as a checkout has them: one that `head` (HEAD's files) holds too, by any name, is that in `directory`. */
export function unlockFiles(files: readonly SourceFile[], head: readonly SourceFile[], directory: string) {
  return files.map((file) => {
    const same = isManifestPath(file.path) ? [] : head.filter(({ hash }) => hash === file.hash);
    const here = same.find(({ path }) => path === file.path) ?? same[0];
    // Another one that is locked is another secret; metadata of SAML has to be a document.
    const own = isLocked(file) ? Buffer.from(`<EntityDescriptor entityID="${file.hash}"/>`) : file.bytes;
    return { ...file, bytes: (here && readPlain(posix.join(directory, here.path))) ?? own };
  });
}

/** Most bytes of a file that a key unlocks, as of any file of a secret. */
const largestPlain = 1_000_000;

/** A file of the checkout in place of a locked one; null: it is a pipe, a link, a store's large object, or not there. */
function readPlain(path: string): Uint8Array | null {
  const stat = lstatSync(path, { throwIfNoEntry: false });
  return stat?.isFile() && stat.size <= largestPlain ? attempt(() => readFileSync(path), null) : null;
}

/** Files from the contents of their entries; a problem for a manifest that is encrypted, in Git LFS, or behind a link. */
export function makeFiles(
  entries: readonly TreeEntry[],
  contents: ReadonlyMap<string, Buffer>,
  hashOf: (id: string, bytes: Buffer) => string,
): Result<readonly SourceFile[], Problem> {
  const files: SourceFile[] = [];
  const regular = new Set(entries.flatMap(({ path, type }) => (type === 'file' ? path : [])));
  for (const { path, id, type } of entries) {
    const bytes = contents.get(id) ?? Buffer.alloc(0);
    if (type === 'link') {
      // What it leads to is read under its own name, or no manifest.
      if (!isManifestPath(path) || regular.has(findTarget(path, bytes.toString()))) continue;
      return fail(refuseLink(path, ''));
    }
    if (isManifestPath(path) && encrypted.test(bytes.toString('latin1', 0, 60)))
      return fail(makeError('git-lfs', `${path} is encrypted, or a pointer of Git LFS`, 'commit the file itself'));
    files.push({ path, bytes, hash: hashOf(id, bytes) });
  }
  return ok(files);
}

function refuseLink(path: string, to: '' | ' to a folder' | ' that may lead to a folder'): Problem {
  const hint = to === '' ? 'commit the file itself' : 'commit the folder itself in its place, or remove the link';
  return makeError('not-a-regular-file', `${path} is a symbolic link${to}, which is not followed`, hint);
}

/** By commit the problem of a link that leads, or may lead, to a folder, whose manifests a checkout would show. */
export async function findLinkedFolders(
  repository: GitRepository,
  path: readonly string[],
  commits: readonly { readonly commit: string; readonly links: readonly TreeEntry[] }[],
) {
  const ids = commits.flatMap(({ links }) => links.map(({ id }) => id));
  const targets = await repository.readBlobs([...new Set(ids)], maxTreeBytes);
  const asked = commits.flatMap(({ commit, links }) =>
    links.map((link) => {
      const place = findTarget(posix.join(...path, link.path), targets.get(link.id)?.toString() ?? '');
      // What leads out of the repository is left alone, as a file is; git follows links, though none with `./` in it.
      const inside = /^\.\.(\/|$)/.test(place) ? link.id : `${commit}:${place.replace(/^\.$|\/$/, '')}`;
      return { commit, link, name: place === '' ? commit : inside, tree: treeOf(commit), path: place.split('/') };
    }),
  );
  const heads = await repository.headsOf(asked.map(({ name }) => name));
  // Git tells neither what a partial clone lacks from what is nowhere, nor what lies behind a link to `./x`.
  const ends = await findBelow(repository, asked);
  const problems = new Map<string, Problem>();
  for (const [index, one] of asked.entries()) {
    const end = ends[index]?.type ?? 'file';
    const type = heads[index]?.type ?? end;
    const from = posix.relative(path.join('/'), one.path.join('/'));
    // A folder that no link stands before is read under its own name.
    const isRead = end === 'tree' && from.split('/').every((part) => part !== '' && !part.startsWith('.'));
    if (isRead || type === 'file' || type === 'blob') continue;
    const to = type === 'tree' ? ' to a folder' : ' that may lead to a folder';
    problems.set(one.commit, problems.get(one.commit) ?? refuseLink(one.link.path, to));
  }
  return problems;
}

/** The path that a link leads to; empty where that cannot be told, as behind `..` out of a folder, which may be a link itself. */
function findTarget(path: string, target: string): string {
  const parts = target.split('/');
  const down = parts.findIndex((part) => part !== '.' && part !== '..');
  const isClear = parts[0] !== '' && parts.indexOf('..', down) < 0 && !`${path}${target}`.includes('\n');
  return isClear ? posix.join(posix.dirname(path), target) : '';
}

/** The tree of a folder in each of these commits; null where there is none. */
export async function findFolders(repository: GitRepository, commits: readonly string[], path: readonly string[]) {
  const roots = await repository.headsOf(commits.map(treeOf));
  const ids = roots.flatMap((root) => root?.id ?? []);
  if (ids.length < roots.length) throw new GitError('git-broken', 'git cat-file: no tree of a commit');
  const asked = ids.map((tree) => ({ tree, path }));
  return (await findBelow(repository, asked)).map((entry) => (entry?.type === 'tree' ? entry.id : null));
}

const treeOf = (commit: string): string => `${commit}^{tree}`;

/** The entries at paths below trees, or what stands in the way of one: a link, a submodule. No path is given to git. */
async function findBelow(repository: GitRepository, asked: readonly { tree: string; path: readonly string[] }[]) {
  let found = asked.map(({ tree }): TreeEntry | null => ({ path: '', id: tree, type: 'tree' }));
  for (let at = 0; asked.some(({ path }) => at < path.length); at++) {
    const ids = [...new Set(found.flatMap((one) => (one?.type === 'tree' ? one.id : [])))];
    const keys = found.map((one, index) => `${one?.id}/${asked[index]?.path[at]}`);
    const [wanted, below] = [new Set(keys), new Map<string | undefined, TreeEntry>()];
    for (const [index, { entries }] of (await repository.readTrees(ids, maxTreeBytes)).entries())
      for (const entry of entries)
        if (wanted.has(`${ids[index]}/${entry.path}`)) below.set(`${ids[index]}/${entry.path}`, entry);
    found = found.map((one, index) => {
      if (asked[index]?.path[at] === undefined || one?.type === 'link' || one?.type === 'submodule') return one;
      return one?.type === 'tree' ? (below.get(keys[index]) ?? null) : null;
    });
  }
  return found;
}

/** The first entry that no manifest can come from. */
export function findBadEntry(entries: readonly TreeEntry[]): Problem | null {
  return entries.map((entry, index) => entryProblem(entry, entries[index - 1])).find((bad) => bad !== null) ?? null;
}

/** A submodule is a problem, and so is a name that no checkout could write. */
function entryProblem({ path, type }: TreeEntry, before: TreeEntry | undefined): Problem | null {
  const isOdd = path.split('/').some((part) => part === '' || part.startsWith('.'));
  if (control.test(path) || isOdd || path.includes('\uFFFD')) {
    const summary = `the file name ${escapeControls(path)} holds control characters or is not UTF-8`;
    return makeError('unsafe-file-name', summary, 'rename it');
  }
  if (path === before?.path) return makeError('unsafe-file-name', `the commit holds ${path} twice`, 'commit it anew');
  if (type !== 'submodule') return null;
  const hint = 'commit its manifests here, or name a folder without it; nothing is deleted because of this';
  return makeError('not-a-regular-file', `${path} is a submodule, whose files are not read`, hint);
}

const noYaml = 'there are no *.yaml or *.yml files at the path';
const nothingDeleted = 'correct --git-path; nothing is deleted because of this';
