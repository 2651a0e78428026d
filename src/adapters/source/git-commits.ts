import type { Limits } from '../../desired/context.ts';
import type { Commit } from '../../model/commit.ts';
import type { Problem } from '../../model/problem.ts';
import { fail, ok, type Result } from '../../model/result.ts';
import type { SourceContent } from '../../ports.ts';
import { findBadEntry, findFolders, makeFiles } from './git-content.ts';
import { askRepository, fetchAll, findCommit, loadAt, type RevisionRequest, refuseRevision } from './git-ref.ts';
import type { GitRepository } from './git-repository.ts';
import { listManifestEntries } from './git-tree.ts';

/** The history of a folder of manifests. */
export interface CommitHistory {
  /** Everything that HEAD follows, parents before children. */
  readonly commits: readonly Commit[];
  /** The manifests of each, in that order; a file's hash is mostly Git's id of its content. Rejects with a `GitError`. */
  readonly contents: () => AsyncIterable<{ readonly commit: Commit; readonly content: Result<SourceContent, Problem> }>;
}

/** Commits that are read together, and bytes of their files, at most. */
const batch = { commits: 500, bytes: 32_000_000 };

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
    const head = await findCommit(repository, 'HEAD');
    if (!head.ok) return head;
    const commits = await repository.historyOf(head.value);
    return ok({ commits, contents: () => readContents({ repository, path, limits: request.limits }, commits) });
  });
}

interface Reader {
  readonly repository: GitRepository;
  readonly path: readonly string[];
  readonly limits: Limits;
}

/** Reads commits together; alone what that is too much for, or what is odd, to say what is wrong with it. */
async function* readContents(reader: Reader, commits: readonly Commit[]): ReturnType<CommitHistory['contents']> {
  const { repository, path, limits } = reader;
  const settings = { path, limits, references: () => Promise.resolve([]) };
  for (let from = 0; from < commits.length; from += batch.commits) {
    const some = commits.slice(from, from + batch.commits);
    const together = await readTogether(reader, some).catch((error: unknown) => {
      if (error instanceof RangeError) return null;
      throw error;
    });
    for (const [index, commit] of some.entries()) {
      const content = together?.[index];
      yield { commit, content: content ? ok(content) : await loadAt(repository, commit.id, settings) };
    }
  }
}

/** The contents of commits, with a few runs of git; undefined of one that has to be read alone, null: all have to. */
async function readTogether({ repository, path, limits }: Reader, commits: readonly Commit[]) {
  const folders = await findFolders(repository, commits, path);
  const trees = [...new Set(folders)].filter((id) => id !== null);
  const listed = await listManifestEntries(repository, trees, limits);
  const chosen = listed.map((one) => (one.ok ? one.value.manifests.filter(({ type }) => type !== 'link') : null));
  const ids = [
    ...new Set(chosen.flatMap((entries) => (entries ?? []).filter(({ type }) => type === 'file').map(({ id }) => id))),
  ];
  const heads = await repository.headsOf(ids);
  const bytes = heads.reduce((sum, head) => sum + (head?.bytes ?? Number.POSITIVE_INFINITY), 0);
  if (bytes > batch.bytes) return null;
  const blobs = await repository.readBlobs(ids, bytes);
  const contents = new Map<string | null, SourceContent>([[null, { revision: '', files: [] }]]);
  for (const [index, tree] of trees.entries()) {
    const entries = chosen[index];
    const files = entries && findBadEntry(entries) === null ? makeFiles(entries, blobs, (id) => id) : null;
    if (files?.ok) contents.set(tree, { revision: tree, files: files.value });
  }
  return folders.map((tree) => contents.get(tree));
}
