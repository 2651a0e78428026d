import type { Limits } from '../../desired/context.ts';
import type { Commit } from '../../model/commit.ts';
import { makeError } from '../../model/problem.ts';
import { fail, ok } from '../../model/result.ts';
import type { SourceContent } from '../../ports.ts';
import {
  type ContentSettings,
  findBadEntry,
  findFolders,
  findLinkedFolders,
  makeFiles,
  readFilesAt,
} from './git-content.ts';
import { askRepository, fetchAll, findCommit, loadAt, type RevisionRequest } from './git-ref.ts';
import type { GitRepository } from './git-repository.ts';
import { listManifestEntries } from './git-tree.ts';

/** Commits that are read together, and bytes of their files, at most. */
const batch = { commits: 500, bytes: 32_000_000 };

type HistoryRequest = RevisionRequest & { readonly limits: Limits; readonly files: readonly string[] };

/** The commits of HEAD, parents before children, and the manifests in `directory` and `files` of each. A shallow clone is a problem. */
export async function openHistory(request: HistoryRequest) {
  return await askRepository(request, async (repository, path) => {
    if (await repository.isShallow())
      return fail(makeError('base', 'this clone is shallow: its history ends before it began', fetchAll));
    const head = await findCommit(repository, 'HEAD');
    if (!head.ok) return head;
    const commits = await repository.historyOf(head.value);
    const settings = { ...request, path, references: () => Promise.resolve([]) };
    return ok({ commits, contents: readContents(repository, commits, settings) });
  });
}

/** A file's hash is mostly Git's id of its content. Rejects with a `GitError`. */
async function* readContents(
  repository: GitRepository,
  commits: readonly Commit[],
  settings: ContentSettings & HistoryRequest,
) {
  for (let from = 0; from < commits.length; from += batch.commits) {
    const some = commits.slice(from, from + batch.commits);
    const ids = some.map(({ id }) => id);
    // What is wrong with which commit is told where it is read alone.
    const together = await readTogether(repository, ids, settings).catch(() => null);
    const beside = await readFilesAt(repository, ids, settings).catch(() => null);
    for (const [index, commit] of some.entries()) {
      const content = together?.[index];
      const files = beside?.[index] ?? (await readFilesAt(repository, [commit.id], settings))[0] ?? [];
      yield { commit, files, content: content ? ok(content) : await loadAt(repository, commit.id, settings) };
    }
  }
}

/** The contents of commits, with a few runs of git; undefined of one that has to be read alone. Rejects where all have to. */
async function readTogether(repository: GitRepository, commits: readonly string[], { path, limits }: ContentSettings) {
  const folders = await findFolders(repository, commits, path);
  const trees = [...new Set(folders)].filter((id) => id !== null);
  const listed = await listManifestEntries(repository, trees, limits);
  const listings = new Map(trees.map((tree, index) => [tree, listed[index]?.ok ? listed[index].value : null]));
  const manifests = [...listings.values()].flatMap((one) => one?.manifests ?? []);
  const files = manifests.filter(({ type }) => type !== 'submodule');
  const blobs = await repository.readBlobs([...new Set(files.map(({ id }) => id))], batch.bytes);
  const contents = new Map<string | null, SourceContent>([[null, { revision: '', files: [] }]]);
  for (const [revision, listing] of listings) {
    const isGood = listing !== null && findBadEntry([...listing.manifests, ...listing.links]) === null;
    const made = isGood ? makeFiles(listing.manifests, blobs, (id) => id) : null;
    if (made?.ok) contents.set(revision, { revision, files: made.value });
  }
  const linksOf = (tree: string | null) => (tree && contents.has(tree) && listings.get(tree)?.links) || [];
  const linking = commits.map((commit, index) => ({ commit, links: linksOf(folders[index] ?? null) }));
  const linked = await findLinkedFolders(repository, path, linking);
  return folders.map((tree, index) => (linked.has(commits[index] ?? '') ? undefined : contents.get(tree)));
}
