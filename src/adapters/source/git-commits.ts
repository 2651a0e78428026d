import type { Limits } from '../../desired/context.ts';
import type { Commit } from '../../model/commit.ts';
import type { Problem } from '../../model/problem.ts';
import { fail, ok, type Result } from '../../model/result.ts';
import type { SourceContent } from '../../ports.ts';
import { findBadEntry, makeFiles } from './git-content.ts';
import { askRepository, fetchAll, loadAt, type RevisionRequest, refuseRevision } from './git-ref.ts';
import { GitError, type GitRepository } from './git-repository.ts';
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

/** Commits that are read together, and bytes of their files, at most. */
const batch = { commits: 1_000, bytes: 32_000_000 };

/**
 * The history of the manifests in `directory`, from HEAD back to its beginning. Only objects are read, as in `readAtRef`. A shallow
 * clone is a problem: where its history ends says nothing about when something changed.
 */
export async function openHistory(
  request: RevisionRequest & { readonly limits: Limits },
): Promise<Result<CommitHistory, Problem>> {
  return await askRepository(request, async (repository, path) => {
    if (await repository.isShallow())
      return fail(refuseRevision('this clone is shallow: its history ends before it began', fetchAll));
    const head = await repository.commitOf('HEAD');
    if (head === null) return fail(refuseRevision('the repository has no commit', 'commit the manifests first'));
    const commits = await repository.historyOf(head);
    return ok({ commits, contents: () => readTogether({ repository, path, limits: request.limits }, commits) });
  });
}

interface Reader {
  readonly repository: GitRepository;
  readonly path: readonly string[];
  readonly limits: Limits;
}

/** Reads commits together; where that is too much, half of them at a time, and one alone within all of its limits. */
async function* readTogether(reader: Reader, commits: readonly Commit[]): AsyncIterable<CommitContent> {
  const [commit] = commits;
  if (commit === undefined) return;
  const isBatch = commits.length > 1 && commits.length <= batch.commits;
  const contents = isBatch ? await readBatch(reader, commits) : null;
  if (contents !== null) {
    yield* contents;
  } else if (commits.length === 1) {
    const settings = { path: reader.path, limits: reader.limits, references: () => Promise.resolve([]) };
    yield { commit, content: await loadAt(reader.repository, commit.id, settings) };
  } else {
    const half = Math.ceil(commits.length / 2);
    yield* readTogether(reader, commits.slice(0, half));
    yield* readTogether(reader, commits.slice(half));
  }
}

/** The contents of commits, with a few runs of git; null: too much at once, or an object is not here. */
async function readBatch(reader: Reader, commits: readonly Commit[]): Promise<readonly CommitContent[] | null> {
  const { repository, limits } = reader;
  try {
    const folders = await findFolders(reader, commits);
    const trees = [...new Set(folders)].filter((id) => id !== null);
    const listed = await listEntriesOfTrees(repository, trees, limits);
    const found = listed.flatMap((one) => (one.ok ? one.value.manifests : []));
    const ids = [...new Set(found.flatMap(({ id, type }) => (type === 'file' ? [id] : [])))];
    const heads = await repository.headsOf(ids);
    const bytes = heads.reduce((sum, head) => sum + (head?.bytes ?? Number.POSITIVE_INFINITY), 0);
    if (bytes > batch.bytes) return null;
    const blobs = await repository.readBlobs(ids, bytes);
    const contents = new Map(trees.map((tree, index) => [tree, contentOf(tree, listed[index], blobs)]));
    const none = contentOf('', undefined, blobs);
    return commits.map((commit, index) => ({ commit, content: contents.get(folders[index] ?? '') ?? none }));
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

/** The tree of the folder in each commit; null where it is not there. */
async function findFolders({ repository, path }: Reader, commits: readonly Commit[]): Promise<(string | null)[]> {
  const roots = await repository.headsOf(commits.map(({ id }) => `${id}^{tree}`));
  if (roots.includes(null)) throw new GitError('git-broken', 'git cat-file: no tree of a commit');
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

type Listed = Awaited<ReturnType<typeof listEntriesOfTrees>>[number];

function contentOf(tree: string, listed: Listed | undefined, blobs: ReadonlyMap<string, Buffer>) {
  if (listed?.ok === false) return listed;
  const chosen = (listed?.value.manifests ?? []).filter(({ type }) => type !== 'link');
  const bad = findBadEntry(chosen);
  if (bad !== null) return fail(bad);
  const files = makeFiles(chosen, blobs, (id) => id);
  return files.ok ? ok({ revision: tree, files: files.value }) : files;
}
