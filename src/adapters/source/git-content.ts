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
import { describeJson, noteJson, refuseBeyond, refuseTooLarge } from './limits.ts';
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
  const linked = (await findLinkedFolders(repository, settings, [{ commit, links }])).get(commit);
  if (linked) return fail(linked);
  if (manifests.value.length === 0)
    return fail(makeError('no-manifests', `${noYaml}${describeJson(json)}`, nothingDeleted));
  const named = new Set(await settings.references(manifests.value));
  const paths = [...named].filter((path) => !isManifestPath(path) && !path.split('/').includes('..'));
  if (paths.length > limits.files)
    return fail(refuseTooLarge(`the manifests name more than ${limits.files} files`, 'limits.files'));
  const asked = paths.map((path) => ({ tree: root, path: path.split('/') }));
  const found = await findBelow(repository, asked);
  const others = found.flatMap((entry, at) => (entry?.type === 'file' ? { ...entry, path: paths[at] ?? '' } : []));
  const read = await readFiles(request, others);
  if (!read.ok) return read;
  // By their names: nothing is fetched for a note.
  const notes = json.flatMap(({ path }) => noteJson(path, null));
  const isLinked = found.some((entry) => entry?.type === 'link' || entry?.type === 'submodule');
  return ok({ revision: commit, files: [...manifests.value, ...read.value], notes, isLinked });
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

/** Files from the contents of their entries, links left out; a problem for a manifest that is encrypted, or in Git LFS. */
export function makeFiles(
  entries: readonly TreeEntry[],
  contents: ReadonlyMap<string, Buffer>,
  hashOf: (id: string, bytes: Buffer) => string,
): Result<readonly SourceFile[], Problem> {
  const files: SourceFile[] = [];
  for (const { path, id, type } of entries) {
    if (type === 'link') continue;
    const bytes = contents.get(id) ?? Buffer.alloc(0);
    if (isManifestPath(path) && encrypted.test(bytes.toString('latin1', 0, 60)))
      return fail(makeError('git-lfs', `${path} is encrypted, or a pointer of Git LFS`, 'commit the file itself'));
    files.push({ path, bytes, hash: hashOf(id, bytes) });
  }
  return ok(files);
}

function refuseLink(path: string, to = ''): Problem {
  const hint = 'commit the file or folder itself, or remove the link';
  return makeError('not-a-regular-file', `${path} is a symbolic link${to}, which is not followed`, hint);
}

/** By commit the problem of a link that leads to a folder whose manifests a checkout would show, or may lead to one. */
export async function findLinkedFolders(
  repository: GitRepository,
  { path, limits }: Pick<ContentSettings, 'path' | 'limits'>,
  commits: readonly { readonly commit: string; readonly links: readonly TreeEntry[] }[],
) {
  const ids = commits.flatMap(({ links }) => links.map(({ id }) => id));
  const targets = await repository.readBlobs([...new Set(ids)], maxTreeBytes);
  const asked = commits.flatMap(({ commit, links }) =>
    links.map((link) => ({ commit, link, tree: treeOf(commit), path: [...path, ...link.path.split('/')] })),
  );
  let ends = await findBelow(repository, asked);
  for (let hop = 0; hop < mostHops; hop++) {
    for (const [index, one] of asked.entries()) one.path = followLink(ends[index] ?? null, one.path, targets);
    const found = await findBelow(repository, asked);
    ends = ends.map((end, index) => (asked[index]?.path.length === 0 ? end : (found[index] ?? null)));
  }
  const trees = [...new Set(ends.flatMap((end) => (end?.type === 'tree' ? end.id : [])))];
  const listed = await listManifestEntries(repository, trees, limits);
  const isBare = listed.map((one) => one.ok && one.value.manifests.length + one.value.links.length === 0);
  const problems = new Map<string, Problem>();
  for (const [index, { commit, link }] of asked.entries()) {
    const { type, id } = ends[index] ?? { type: 'file', id: '' }; // nothing there leads to no folder
    const to = type === 'tree' ? ' to a folder' : ' that may lead to a folder';
    const isGood = type === 'file' || isBare[trees.indexOf(id)];
    if (!isGood) problems.set(commit, problems.get(commit) ?? refuseLink(link.path, to));
  }
  return problems;
}

/** More links in a row than a library has. */
const mostHops = 6;

/** The path behind a link on the way to `path`; empty without one, outside, or behind `..` out of a folder, which may be a link. */
function followLink(end: TreeEntry | null, path: readonly string[], targets: ReadonlyMap<string, Buffer>) {
  const target = (end?.type === 'link' && targets.get(end.id)?.toString()) || '/';
  const parts = target.split('/');
  const down = parts.findIndex((part) => part !== '.' && part !== '..');
  const place = posix.join(posix.dirname(end?.path ?? ''), target).split('/');
  const isClear = parts[0] !== '' && place[0] !== '..' && parts.indexOf('..', down) < 0;
  const all = [...place, ...path.slice(end?.path.split('/').length)];
  return isClear ? all.filter((part) => part !== '' && part !== '.') : [];
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

/** How deep a path may be: git is started once for each folder of the longest. */
const deepest = 64;

/** The entries at paths below trees, or what stands in the way, and where: a link (or too many folders), a submodule. Git gets no path. */
async function findBelow(repository: GitRepository, asked: readonly { tree: string; path: readonly string[] }[]) {
  const start = ({ length }: readonly string[]) => (length > deepest ? 'link' : 'tree');
  let found = asked.map(({ tree, path }): TreeEntry | null => ({ path: '', id: tree, type: start(path) }));
  for (let at = 0; asked.some(({ path }, index) => at < path.length && found[index]?.type === 'tree'); at++) {
    const ids = [...new Set(found.flatMap((one) => (one?.type === 'tree' ? one.id : [])))];
    const keys = found.map((one, index) => `${one?.id}/${asked[index]?.path[at]}`);
    const [wanted, below] = [new Set(keys), new Map<string | undefined, TreeEntry>()];
    for (const [index, { entries }] of (await repository.readTrees(ids, maxTreeBytes)).entries())
      for (const entry of entries)
        if (wanted.has(`${ids[index]}/${entry.path}`)) below.set(`${ids[index]}/${entry.path}`, entry);
    found = found.map((one, index) => {
      if (asked[index]?.path[at] === undefined || one?.type === 'link' || one?.type === 'submodule') return one;
      const entry = one?.type === 'tree' ? below.get(keys[index]) : undefined;
      return entry ? { ...entry, path: asked[index].path.slice(0, at + 1).join('/') } : null;
    });
  }
  return found;
}

/** The first entry that no manifest can come from. */
export function findBadEntry(entries: readonly TreeEntry[]): Problem | null {
  return entries.map((entry, index) => entryProblem(entry, entries[index - 1])).find((bad) => bad !== null) ?? null;
}

/** A submodule is a problem, and so is a link with the name of a manifest, or a name that no checkout could write. */
function entryProblem({ path, type }: TreeEntry, before: TreeEntry | undefined): Problem | null {
  const isOdd = path.split('/').some((part) => part === '' || part.startsWith('.'));
  if (control.test(path) || isOdd || path.includes('\uFFFD')) {
    const summary = `the file name ${escapeControls(path)} holds control characters or is not UTF-8`;
    return makeError('unsafe-file-name', summary, 'rename it');
  }
  if (path === before?.path) return makeError('unsafe-file-name', `the commit holds ${path} twice`, 'commit it anew');
  if (type === 'link' && isManifestPath(path)) return refuseLink(path, '');
  if (type !== 'submodule') return null;
  const hint = 'commit its manifests here, or name a folder without it; nothing is deleted because of this';
  return makeError('not-a-regular-file', `${path} is a submodule, whose files are not read`, hint);
}

const noYaml = 'there are no *.yaml or *.yml files at the path';
const nothingDeleted = 'correct --git-path; nothing is deleted because of this';
