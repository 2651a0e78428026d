import { createHash } from 'node:crypto';
import type { Limits } from '../../desired/context.ts';
import { compareText, type Problem } from '../../model/problem.ts';
import { fail, ok, type Result } from '../../model/result.ts';
import type { SourceContent, SourceFile } from '../../ports.ts';
import { type GitRun, gitEnvironment, lockedDown, runGit } from './git-process.ts';

/** What reading an earlier revision of a directory needs. */
export interface GitRefRequest {
  /** The directory of the manifests, inside a working tree. */
  readonly directory: string;
  /** A commit, branch or tag; checked before git sees it. */
  readonly ref: string;
  readonly limits: Limits;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

const timeoutMs = 30_000;
/** A branch, tag or commit, with `~2`, `^` and `@{upstream}`-like parts; nothing that git could take for an option. */
const refPattern = /^[\p{L}\p{N}_@][\p{L}\p{N}_./@{}^~+#%&()=,!'-]{0,250}$/u;

/**
 * The manifests of `directory` as they are in a commit of the repository that holds it. Only objects are read: no
 * checkout, no filter, no hook, no network. A directory that the commit does not have gives no files.
 */
export async function readAtRef(request: GitRefRequest): Promise<Result<SourceContent, Problem>> {
  const { ref, directory } = request;
  if (!refPattern.test(ref) || ref.includes('..')) {
    return fail(
      problem(`--base ${JSON.stringify(ref)} is no name of a commit`, 'write a branch, a tag or a commit id'),
    );
  }
  const prefix = await git(request, ['rev-parse', '--show-prefix']);
  if (prefix.end === 'not-started')
    return fail(problem('git cannot be started', 'install git, or give --base a directory'));
  if (prefix.code !== 0)
    return fail(
      problem(
        `${directory} is not in a Git repository`,
        '--base REF reads the repository that holds PATH; else give --base a directory',
      ),
    );
  const commit = await git(request, ['rev-parse', '--verify', '--quiet', '--end-of-options', `${ref}^{commit}`]);
  if (commit.code !== 0) return fail(await missingRef(request));
  const id = commit.stdout.toString('utf8').trim();
  const folder = prefix.stdout.toString('utf8').replace(/\n$/, '').replace(/\/$/, '');
  const tree = await git(request, ['rev-parse', '--verify', '--quiet', '--end-of-options', `${id}:${folder}`]);
  if (tree.code !== 0) return ok({ revision: id, files: [] });
  return readTree(request, id, tree.stdout.toString('utf8').trim());
}

async function readTree(
  request: GitRefRequest,
  revision: string,
  tree: string,
): Promise<Result<SourceContent, Problem>> {
  const listing = await git(request, ['ls-tree', '-r', '-z', '--full-tree', tree]);
  if (listing.code !== 0) return fail(unreadable(request.ref));
  const entries = listing.stdout
    .toString('utf8')
    .split('\0')
    .flatMap(manifestEntry)
    .sort((a, b) => compareText(a.path, b.path));
  if (entries.length > request.limits.files)
    return fail(
      problem(
        `${request.ref} holds more than ${request.limits.files} manifests`,
        'raise limits.files in the settings file',
      ),
    );
  const batch = await git(request, ['cat-file', '--batch'], entries.map(({ id }) => `${id}\n`).join(''));
  if (batch.end === 'too-much-output')
    return fail(
      problem(`the manifests of ${request.ref} are too large`, 'raise limits.totalBytes in the settings file'),
    );
  if (batch.code !== 0) return fail(unreadable(request.ref));
  const files = blobsOf(batch.stdout, entries);
  return files === null ? fail(unreadable(request.ref)) : ok({ revision, files });
}

interface Entry {
  readonly path: string;
  readonly id: string;
}

/** A regular file that the directory source would read too; links and hidden names are left out. */
function manifestEntry(line: string): readonly Entry[] {
  const match = /^(100644|100755) blob ([0-9a-f]{40,64})\t([\s\S]+)$/.exec(line);
  const path = match?.[3] ?? '';
  const isManifest = /\.ya?ml$/i.test(path) && !path.split('/').some((part) => part.startsWith('.'));
  return isManifest ? [{ path, id: match?.[2] ?? '' }] : [];
}

/** Splits the output of `cat-file --batch`: a header line, the bytes, a newline, for each object in order. */
function blobsOf(output: Buffer, entries: readonly Entry[]): readonly SourceFile[] | null {
  const files: SourceFile[] = [];
  let offset = 0;
  for (const { path, id } of entries) {
    const end = output.indexOf(10, offset);
    const header = /^[0-9a-f]+ blob ([0-9]+)$/.exec(output.subarray(offset, end).toString('latin1'));
    if (end < 0 || header === null) return null;
    const bytes = output.subarray(end + 1, end + 1 + Number(header[1]));
    files.push({ path, bytes, hash: createHash('sha256').update(bytes).digest('hex') });
    offset = end + 1 + Number(header[1]) + 1;
    if (id === '') return null;
  }
  return files;
}

/** A ref that is not there: in a shallow clone that has one likely reason. */
async function missingRef(request: GitRefRequest): Promise<Problem> {
  const shallow = await git(request, ['rev-parse', '--is-shallow-repository']);
  if (shallow.stdout.toString('utf8').trim() === 'true') {
    return problem(
      `${request.ref} is not in this clone, which is shallow`,
      'fetch the whole history: `fetch-depth: 0` for actions/checkout, GIT_DEPTH: 0 for GitLab, or `git fetch --unshallow`',
    );
  }
  return problem(
    `${request.ref} is not in the repository that holds PATH`,
    'fetch it first: git fetch origin; then --base origin/main',
  );
}

function git(
  { directory, environment, limits, signal }: GitRefRequest,
  args: readonly string[],
  stdin?: string,
): Promise<GitRun> {
  const env = {
    ...gitEnvironment({ home: '/nonexistent', askpass: '/bin/false' }, environment),
    GIT_LITERAL_PATHSPECS: '1',
  };
  return runGit({
    cwd: directory,
    // A working tree that belongs to another user is common in CI; only objects are read from it.
    config: [...lockedDown, 'safe.directory=*'],
    args,
    env,
    ...(stdin === undefined ? {} : { stdin }),
    timeoutMs,
    maxOutput: limits.totalBytes,
    signal,
  });
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
