import type { Limits } from '../../desired/context.ts';
import type { Commit } from '../../model/commit.ts';
import { fail, ok } from '../../model/result.ts';
import type { SourceContent } from '../../ports.ts';
import { type ContentSettings, findBadEntry, findFolders, makeFiles, readFilesAt } from './git-content.ts';
import {
  askRepository,
  fetchAll,
  findCommit,
  loadAt,
  noFetch,
  type RevisionRequest,
  refuseRevision,
} from './git-ref.ts';
import type { GitRepository } from './git-repository.ts';
import { listManifestEntries } from './git-tree.ts';

/** Commits that are read together, and bytes of their files, at most. */
const batch = { commits: 500, bytes: 32_000_000 };

type HistoryRequest = RevisionRequest & { readonly limits: Limits; readonly files: readonly string[] };

/** The commits of HEAD, parents before children, and the manifests in `directory` and `files` of each. A shallow clone is a problem. */
export async function openHistory(request: HistoryRequest) {
  return await askRepository(request, async (repository, path) => {
    if (await repository.isShallow())
      return fail(refuseRevision('this clone is shallow: its history ends before it began', fetchAll));
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
async function readTogether(repository: GitRepository, commits: readonly string[], settings: ContentSettings) {
  const folders = await findFolders(repository, commits, settings.path);
  const places = commits.flatMap((commit, index) => (folders[index] ? { commit, tree: folders[index] } : []));
  const listed = await listManifestEntries({ repository, settings, fetchObjects: noFetch }, places);
  const files = [...new Set(listed)].flatMap((one) => (one.ok ? one.value.manifests : []));
  const ids = files.flatMap(({ id, type }) => (type === 'file' ? id : []));
  const blobs = await repository.readBlobs([...new Set(ids)], batch.bytes);
  const made = new Map<unknown, SourceContent>();
  const contents = new Map<string, SourceContent | undefined>();
  for (const [index, { commit }] of places.entries()) {
    const listing = listed[index];
    if (!made.has(listing) && listing?.ok && findBadEntry(listing.value.manifests) === null) {
      const some = makeFiles(listing.value.manifests, blobs, (id) => id);
      // What is equal has one name, and is built once.
      if (some.ok) made.set(listing, { revision: commit, files: some.value });
    }
    contents.set(commit, made.get(listing));
  }
  return commits.map((id, index) => (folders[index] ? contents.get(id) : { revision: '', files: [] }));
}
