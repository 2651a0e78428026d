import type { Limits } from '../../desired/context.ts';
import type { Commit } from '../../model/commit.ts';
import { makeError, type Problem } from '../../model/problem.ts';
import { fail, ok } from '../../model/result.ts';
import type { SourceContent } from '../../ports.ts';
import {
  type ContentSettings,
  findBadEntry,
  findFolders,
  findLinkedFolders,
  loadContent,
  makeFiles,
  readFilesAt,
} from './git-content.ts';
import { type GitAnswer, GitError, GitRepository } from './git-repository.ts';
import { listManifestEntries } from './git-tree.ts';
import { findWorkTree } from './work-tree.ts';

/** A question about the repository whose work tree holds a directory. */
interface RevisionRequest {
  readonly directory: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

/** A branch, tag or commit, with `~2`, `^` and `@{upstream}`-like parts; nothing that git could take for an option or a range. */
const refPattern = /^[\p{L}\p{N}_@][\p{L}\p{N}_./@{}^~+#%&()=,!'-]{0,250}$/u;

/** Asks the repository whose work tree holds the directory, by object only; a problem where there is none, or git does not answer. */
async function askRepository<T>(
  { directory, environment, signal }: RevisionRequest,
  ask: (repository: GitRepository, path: readonly string[]) => GitAnswer<T>,
): GitAnswer<T> {
  const found = findWorkTree(directory);
  if (found === null) {
    const hint = `name a work tree: revisions are read from the repository that PATH is checked out from; ${orFolder}`;
    return fail(makeError('base', `${directory} is not in a Git work tree`, hint));
  }
  if (found.isLink)
    return fail(
      makeError('base', `${directory} is a link, or behind one`, `name the folder: ${found.path.join('/') || '.'}`),
    );
  try {
    return await ask(new GitRepository({ gitDir: found.gitDir, environment, signal }), found.path);
  } catch (error) {
    if (error instanceof GitError) return fail(explainGitError(error));
    if (error instanceof RangeError)
      return fail(makeError('base', 'the repository is too large', 'name a smaller one'));
    throw error;
  }
}

const orFolder = '--base and diff take directories too';

/** Why git had no answer. */
export function explainGitError({ code, message }: GitError): Problem {
  const why = message.includes('unknown option') ? `${message}; git 2.30 or later is needed` : message;
  if (code === 'git-broken') return unreadable(` (${why})`);
  const cure =
    code === 'git-not-started' ? 'install git' : 'run it again, and check the disk and the repository: git fsck';
  return makeError('base', message, `${cure}; ${orFolder}`);
}

function unreadable(why = ''): Problem {
  const inCi = 'in CI give actions/checkout `filter: blob:limit=1g` beside `sparse-checkout`';
  const hint = `a partial clone lacks them: git fetch --refetch --no-filter, ${inCi}; or check the repository: git fsck`;
  return makeError('base', `the manifests cannot be read from the repository${why}`, hint);
}

/** The manifests of `directory` in a commit, branch or tag, checked before git sees it. One without the directory: no files. */
export async function readAtRef(request: RevisionRequest & Omit<ContentSettings, 'path'> & { readonly ref: string }) {
  const { ref, limits, references } = request;
  return await askRepository(request, async (repository, path) => {
    const commit = await findCommit(repository, ref);
    return commit.ok ? await loadAt(repository, commit.value, { path, limits, references }) : commit;
  });
}

export type FilesRequest = RevisionRequest & { readonly ref: string; readonly files: readonly string[] };

/** These files as a revision has them; see `readFilesAt`. */
export async function readFilesAtRef(request: FilesRequest) {
  return await askRepository(request, async (repository) => {
    const commit = await findCommit(repository, request.ref);
    return commit.ok ? ok((await readFilesAt(repository, [commit.value], request))[0] ?? []) : commit;
  });
}

/** The manifests of a commit, none where it has no folder of them. */
async function loadAt(repository: GitRepository, commit: string, settings: ContentSettings) {
  const fetchObjects = (): GitAnswer<null> => Promise.resolve(fail(unreadable()));
  const content = await loadContent({ repository, commit, settings, fetchObjects });
  const isAbsent = !content.ok && ['git-path-missing', 'no-manifests'].includes(content.error.code);
  return isAbsent ? ok({ revision: commit, files: [] }) : content;
}

/** Whether a name stands for a commit of the repository. */
export async function isRevision(name: string, request: RevisionRequest): Promise<boolean> {
  return (await askRepository(request, (repository) => findCommit(repository, name))).ok;
}

/** The nearest commit that both revisions hold in their history. */
export async function findMergeBase([from, to]: readonly [string, string], request: RevisionRequest) {
  return await askRepository(request, async (repository) => {
    const [a, b] = [await findCommit(repository, from), await findCommit(repository, to)];
    if (!a.ok) return a;
    if (!b.ok) return b;
    const base = await repository.mergeBaseOf(a.value, b.value);
    if (base !== null) return ok(base);
    return fail(makeError('base', `${from} and ${to} have no commit in common here`, fetchAll));
  });
}

/** The commit that a name stands for. One that is not there has, in a shallow clone, one likely reason. */
async function findCommit(repository: GitRepository, name: string): GitAnswer<string> {
  if (!refPattern.test(name) || name.includes('..')) {
    const summary = `${JSON.stringify(name)} is not the name of a commit`;
    return fail(makeError('base', summary, 'write a branch, a tag, a commit id, or a directory that is there'));
  }
  const [bare = ''] = name.split(/[~^]|@\{/);
  const places = [`tags/${bare}`, `heads/${bare}`, `remotes/${bare}`, `remotes/${bare}/HEAD`];
  const refs = bare.startsWith('refs/') ? [] : places.map((place) => `refs/${place}`);
  const heads = await repository.headsOf(refs.map((ref) => `${ref}^{commit}`));
  const found = refs.filter((_, index) => heads[index] !== null).join(' or ');
  // Git would take the tag, which anybody may have named like a branch, or like the first digits of a commit.
  const orId = found !== '' && /^[0-9a-f]{4,39}$/.test(bare) ? ', or the full id of the commit' : '';
  if (orId !== '' || new Set(heads.flatMap((head) => head?.id ?? [])).size > 1)
    return fail(makeError('base', `${bare} has more than one meaning here`, `write ${found}${orId}`));
  const commit = await repository.commitOf(name);
  if (commit !== null) return ok(commit);
  if (await repository.isShallow())
    return fail(makeError('base', `${name} is not in this clone, which is shallow`, fetchAll));
  if (name === 'HEAD') return fail(makeError('base', 'the repository has no commit', 'commit the manifests first'));
  const hint =
    bare !== name && (await repository.commitOf(bare)) !== null
      ? `the history of ${bare} does not go back so far: \`git log ${bare}\` lists its commits`
      : 'check its spelling (git branch --all lists the branches); or fetch it: git fetch origin';
  return fail(makeError('base', `${name} is not in the repository that holds PATH`, hint));
}

/** What helps in a shallow clone. */
export const fetchAll =
  'fetch the whole history: `fetch-depth: 0` for actions/checkout, GIT_DEPTH: 0 for GitLab, or `git fetch --unshallow`';

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
  const linked = await findLinkedFolders(repository, { path, limits }, linking);
  return folders.map((tree, index) => (linked.has(commits[index] ?? '') ? undefined : contents.get(tree)));
}
