import type { Limits } from '../../desired/context.ts';
import type { Commit } from '../../model/commit.ts';
import type { Problem } from '../../model/problem.ts';
import { fail, ok, type Result } from '../../model/result.ts';
import type { SourceContent, SourceFile } from '../../ports.ts';
import { findBadEntry, findLfsPointer, loadContent } from './git-content.ts';
import { allowAbsent, findWorkTree, type RevisionRequest } from './git-ref.ts';
import { GitError, type GitRepository, openRepository } from './git-repository.ts';
import { listEntriesOfTrees, maxTreeBytes } from './git-tree.ts';

/** The history of a folder of manifests. */
export interface CommitHistory {
  /** Everything that HEAD follows, parents before children. */
  readonly commits: readonly Commit[];
  /** The manifests of each, in that order; a file's hash is Git's id of its content. Rejects with a `GitError`. */
  readonly contents: () => AsyncIterable<CommitContent>;
}

export interface CommitContent {
  readonly commit: Commit;
  readonly content: Result<SourceContent, Problem>;
}

/** Commits that are read together, and bytes of their files. */
const batch = { commits: 1_000, bytes: 32_000_000 };

/**
 * The history of the manifests in `directory`, from HEAD back to its beginning. Only objects are read, as in `readAtRef`. A shallow
 * clone is a problem: where its history ends says nothing about when something changed.
 */
export async function openHistory(
  request: RevisionRequest & { readonly limits: Limits },
): Promise<Result<CommitHistory, Problem>> {
  const { directory, environment, signal, limits } = request;
  const found = findWorkTree(directory);
  if (found === null) return fail(problem(`${directory} is not in a Git work tree`, 'name a work tree'));
  const repository = openRepository({ gitDir: found.gitDir, environment, signal });
  try {
    if (await repository.isShallow()) {
      const hint = 'fetch the whole history: `fetch-depth: 0`, GIT_DEPTH: 0 for GitLab, or `git fetch --unshallow`';
      return fail(problem('this clone is shallow: its history ends before it began', hint));
    }
    const head = await repository.commitOf('HEAD');
    if (head === null) return fail(problem('the repository has no commit', 'commit the manifests first'));
    const commits = await repository.historyOf(head);
    const reader = { repository, path: found.path, limits };
    return ok({ commits, contents: () => readAll(reader, commits) });
  } catch (error) {
    if (error instanceof RangeError) return fail(problem('the repository has too many commits', 'name a smaller one'));
    if (error instanceof GitError) return fail(problem(error.message, 'check that git is installed'));
    throw error;
  }
}

interface Reader {
  readonly repository: GitRepository;
  readonly path: readonly string[];
  readonly limits: Limits;
}

async function* readAll(reader: Reader, commits: readonly Commit[]): AsyncIterable<CommitContent> {
  for (let at = 0; at < commits.length; at += batch.commits) {
    yield* readTogether(reader, commits.slice(at, at + batch.commits));
  }
}

/** Reads commits together; where that is too much, half of them at a time, and one alone within all of its limits. */
async function* readTogether(reader: Reader, commits: readonly Commit[]): AsyncIterable<CommitContent> {
  const [commit] = commits;
  if (commit === undefined) return;
  if (commits.length === 1) {
    yield { commit, content: await readAlone(reader, commit) };
    return;
  }
  const contents = await readBatch(reader, commits);
  if (contents !== null) {
    yield* contents;
    return;
  }
  const half = Math.ceil(commits.length / 2);
  yield* readTogether(reader, commits.slice(0, half));
  yield* readTogether(reader, commits.slice(half));
}

async function readAlone({ repository, path, limits }: Reader, { id }: Commit): Promise<CommitContent['content']> {
  const settings = { path, limits, references: () => Promise.resolve([]) };
  const absent = problem('the manifests cannot be read from the repository', 'a partial clone lacks them: fetch them');
  const fetchObjects = (): Promise<Result<null, Problem>> => Promise.resolve(fail(absent));
  const content = await loadContent({ repository, commit: id, settings, fetchObjects, skipsLinks: true });
  return allowAbsent(content, id);
}

/** The contents of commits, with a few runs of git; null: too much at once, or an object is not here. */
async function readBatch(reader: Reader, commits: readonly Commit[]): Promise<readonly CommitContent[] | null> {
  const { repository, limits } = reader;
  try {
    const folders = await findFolders(reader, commits);
    const trees = [...new Set(folders)].filter((id) => id !== null);
    const listed = await listEntriesOfTrees(repository, trees, limits);
    const entries = new Map(trees.map((id, index) => [id, listed[index] ?? ok({ manifests: [], json: [] })]));
    const found = [...entries.values()].flatMap((one) => (one.ok ? one.value.manifests : []));
    const ids = [...new Set(found.flatMap(({ id, type }) => (type === 'file' ? [id] : [])))];
    const heads = await repository.headsOf(ids);
    const bytes = heads.reduce((sum, head) => sum + (head?.bytes ?? Number.POSITIVE_INFINITY), 0);
    if (bytes > batch.bytes) return null;
    const blobs = await repository.readBlobs(ids, bytes);
    const byId = new Map(ids.map((id, index) => [id, blobs[index] ?? Buffer.alloc(0)]));
    const contents = new Map<string, CommitContent['content']>();
    for (const [tree, list] of entries)
      contents.set(tree, list.ok ? contentOf(tree, list.value.manifests, byId) : list);
    const none = ok({ revision: '', files: [] });
    return commits.map((commit, index) => ({ commit, content: contents.get(folders[index] ?? '') ?? none }));
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

/** The tree of the folder in each commit; null where it is not there. */
async function findFolders({ repository, path }: Reader, commits: readonly Commit[]): Promise<(string | null)[]> {
  const roots = await repository.headsOf(commits.map(({ id }) => `${id}^{tree}`));
  let folders = roots.map((head) => head?.id ?? null);
  for (const part of path) {
    const ids = [...new Set(folders)].filter((id) => id !== null);
    const trees = await repository.readTrees(ids, maxTreeBytes);
    const below = new Map<string | null, string>();
    for (const [index, { entries }] of trees.entries()) {
      for (const { path: name, type, id } of entries)
        if (name === part && type === 'tree') below.set(ids[index] ?? null, id);
    }
    folders = folders.map((id) => below.get(id) ?? null);
  }
  return folders;
}

function contentOf(
  revision: string,
  entries: Parameters<typeof findBadEntry>[0],
  blobs: ReadonlyMap<string, Buffer>,
): CommitContent['content'] {
  const chosen = entries.filter(({ type }) => type !== 'link');
  const bad = findBadEntry(chosen);
  if (bad !== null) return fail(bad);
  const files: SourceFile[] = [];
  for (const { path, id } of chosen) {
    const bytes = blobs.get(id) ?? Buffer.alloc(0);
    const stored = findLfsPointer(path, bytes);
    if (stored !== null) return fail(stored);
    files.push({ path, bytes, hash: id });
  }
  return ok({ revision, files });
}

function problem(summary: string, hint: string): Problem {
  return { code: 'base', severity: 'error', summary, hint };
}
