import { existsSync, lstatSync, realpathSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import type { Limits } from '../../desired/context.ts';
import type { Problem } from '../../model/problem.ts';
import { fail, ok, type Result } from '../../model/result.ts';
import type { SourceContent } from '../../ports.ts';
import { type ContentSettings, loadContent } from './git-content.ts';
import { GitError, type GitRepository, openRepository } from './git-repository.ts';

/** What reading an earlier revision of a directory needs. */
export interface GitRefRequest {
  /** The directory of the manifests, inside a work tree. */
  readonly directory: string;
  /** A commit, branch or tag; checked before git sees it. */
  readonly ref: string;
  readonly limits: Limits;
  readonly references: ContentSettings['references'];
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

/** Questions about revisions of the repository whose work tree holds a directory. */
export type RevisionRequest = Pick<GitRefRequest, 'directory' | 'environment' | 'signal'>;

/** A branch, tag or commit, with `~2`, `^` and `@{upstream}`-like parts; nothing that git could take for an option or a range. */
const refPattern = /^[\p{L}\p{N}_@][\p{L}\p{N}_./@{}^~+#%&()=,!'-]{0,250}$/u;

/** A work tree's repository, and where a directory lies in it. */
export interface WorkTree {
  readonly gitDir: string;
  readonly root: string;
  readonly path: readonly string[];
}

/** The work tree that holds a directory, by an entry `.git`, a name that Git refuses to track; null without one. */
export function findWorkTree(directory: string): WorkTree | null {
  if (!existsSync(directory)) return null;
  const real = realpathSync(directory);
  for (let folder = real; ; folder = dirname(folder)) {
    const gitDir = join(folder, '.git');
    if (lstatSync(gitDir, { throwIfNoEntry: false }) !== undefined) {
      return { gitDir, root: folder, path: relative(folder, real).split(sep).filter(Boolean) };
    }
    if (folder === dirname(folder)) return null;
  }
}

/** The manifests of `directory` in a commit of its repository, read as objects only. A commit without the directory: no files. */
export async function readAtRef(request: GitRefRequest): Promise<Result<SourceContent, Problem>> {
  const { directory, ref, limits, references, environment, signal } = request;
  if (!refPattern.test(ref) || ref.includes('..')) {
    return fail(problem(`${JSON.stringify(ref)} is not the name of a commit`, 'write a branch, a tag or a commit id'));
  }
  const found = findWorkTree(directory);
  if (found === null) {
    const hint =
      'name a work tree: a revision is read from the repository that PATH is checked out from; or name a directory';
    return fail(problem(`${directory} is not in a Git work tree`, hint));
  }
  const repository = openRepository({ gitDir: found.gitDir, environment, signal });
  try {
    const commit = await repository.commitOf(ref);
    if (commit === null) return fail(await explainMissing(repository, ref));
    const settings = { path: found.path, limits, references };
    const fetchObjects = (): Promise<Result<null, Problem>> => Promise.resolve(fail(unreadable(ref)));
    const content = await loadContent({ repository, commit, settings, fetchObjects, skipsLinks: true });
    return allowAbsent(content, commit);
  } catch (error) {
    if (!(error instanceof GitError)) throw error;
    if (error.code === 'git-broken') return fail(unreadable(ref));
    return fail(problem(error.message, 'install git, or name a directory'));
  }
}

/** A commit without the folder, or without manifests in it, has none. */
export function allowAbsent(content: Result<SourceContent, Problem>, revision: string): Result<SourceContent, Problem> {
  const isAbsent = !content.ok && ['git-path-missing', 'no-manifests'].includes(content.error.code);
  return isAbsent ? ok({ revision, files: [] }) : content;
}

/** Whether a name stands for a commit of the repository whose work tree holds the directory. */
export async function isRevision(name: string, { directory, environment, signal }: RevisionRequest): Promise<boolean> {
  const found = findWorkTree(directory);
  if (found === null || !refPattern.test(name) || name.includes('..')) return false;
  try {
    return (await openRepository({ gitDir: found.gitDir, environment, signal }).commitOf(name)) !== null;
  } catch (error) {
    if (error instanceof GitError) return false;
    throw error;
  }
}

/** The nearest commit that both revisions hold in their history. */
export async function findMergeBase(
  names: readonly [string, string],
  { directory, environment, signal }: RevisionRequest,
): Promise<Result<string, Problem>> {
  const found = findWorkTree(directory);
  if (found === null) return fail(problem(`${directory} is not in a Git work tree`, 'name a work tree'));
  const repository = openRepository({ gitDir: found.gitDir, environment, signal });
  try {
    return await mergeBaseIn(repository, names);
  } catch (error) {
    if (!(error instanceof GitError)) throw error;
    return fail(problem(error.message, 'install git, or name two folders'));
  }
}

async function mergeBaseIn(
  repository: GitRepository,
  names: readonly [string, string],
): Promise<Result<string, Problem>> {
  const commits: string[] = [];
  for (const name of names) {
    const commit = refPattern.test(name) && !name.includes('..') ? await repository.commitOf(name) : null;
    if (commit === null) return fail(await explainMissing(repository, name));
    commits.push(commit);
  }
  const [a, b] = commits as [string, string];
  const base = await repository.mergeBaseOf(a, b);
  if (base !== null) return ok(base);
  const why = (await repository.isShallow()) ? '; this clone is shallow' : '';
  return fail(
    problem(
      `${names[0]} and ${names[1]} have no commit in common here${why}`,
      'fetch the whole history: `fetch-depth: 0` for actions/checkout, GIT_DEPTH: 0 for GitLab, or `git fetch --unshallow`',
    ),
  );
}

/** A ref that is not there: in a shallow clone that has one likely reason. */
async function explainMissing(repository: GitRepository, ref: string): Promise<Problem> {
  if (await repository.isShallow()) {
    return problem(
      `${ref} is not in this clone, which is shallow`,
      'fetch the whole history: `fetch-depth: 0` for actions/checkout, GIT_DEPTH: 0 for GitLab, or `git fetch --unshallow`',
    );
  }
  return problem(
    `${ref} is not in the repository that holds PATH`,
    'fetch it first: git fetch origin; then name it as origin/main',
  );
}

function problem(summary: string, hint: string): Problem {
  return { code: 'base', severity: 'error', summary, hint };
}

function unreadable(ref: string): Problem {
  return problem(
    `the manifests of ${ref} cannot be read from the repository`,
    'a partial clone lacks them: fetch the commit completely',
  );
}
