import { existsSync, readdirSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { type SimpleGit, simpleGit } from 'simple-git';
import type { GitHome } from './git-process.ts';
import { gitEnvironment, lockedDown, readable, runGit } from './git-process.ts';

/** One entry of a tree. `path` is relative to the listed tree. */
export interface TreeEntry {
  readonly mode: string;
  readonly type: string;
  readonly id: string;
  readonly path: string;
}

/** Verdict of `git log --format=%G?`: only `G` counts as good. */
export type SignatureStatus = 'G' | 'B' | 'U' | 'X' | 'Y' | 'R' | 'E' | 'N';

/** Local work in a bare repository of our own. No call here can reach the network: every protocol is off. */
export interface GitRepository {
  readonly folder: string;
  /** The commit a name of ours stands for; null when it is not there. */
  commitOf(name: string): Promise<string | null>;
  /** One level of a tree, or all of it. `tree` is an object id. */
  listTree(tree: string, recursive: boolean): Promise<readonly TreeEntry[]>;
  /** Objects below a tree that a partial fetch left out. */
  missingBelow(tree: string): Promise<ReadonlySet<string>>;
  /** Contents of blobs, in the order of `ids`. Throws when one is missing or the sum is larger than `maxBytes`. */
  readBlobs(ids: readonly string[], maxBytes: number, signal: AbortSignal): Promise<readonly Buffer[]>;
  /** Whether `to` holds `from` in its history, as far as the history is here. */
  isAncestor(from: string, to: string): Promise<boolean>;
  isShallow(): boolean;
  setRef(name: string, commit: string): Promise<void>;
  signature(commit: string, config: readonly string[], env: Readonly<Record<string, string>>): Promise<SignatureStatus>;
}

/** A repository that cannot be worked with: it is thrown away and fetched again. */
export class BrokenRepository extends Error {
  override readonly name = 'BrokenRepository';
}

/** There is no git to run. */
export class GitMissing extends Error {
  override readonly name = 'GitMissing';
}

const notInstalled = 'git cannot be found';

const unsafe = {
  allowUnsafeFsMonitor: true,
  allowUnsafeHooksPath: true,
  allowUnsafeProtocolOverride: true,
  allowUnsafeCredentialHelper: true,
  allowUnsafeAskPass: true,
  allowUnsafeTemplateDir: true,
  allowUnsafeConfigPaths: true,
  allowUnsafeGpgProgram: true,
} as const; // all of them are set to constants of this program, never to text from outside

/**
 * Opens the bare repository in `folder`, or makes one for `url`. One that belongs to another URL, or in which a killed git
 * left locks, is removed first.
 */
export async function openRepository(
  folder: string,
  url: string,
  home: GitHome,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<GitRepository> {
  const env = gitEnvironment(home, environment);
  if (existsSync(folder) && leftovers(folder)) await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const git = localGit(folder, env);
  if (existsSync(path.join(folder, 'HEAD'))) {
    const known = await git.raw('config', '--local', '--get', 'remote.origin.url').catch(() => '');
    if (known.trim() === url) return repository(folder, git, env);
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { recursive: true, mode: 0o700 });
  }
  await run(git, 'init', '--quiet', '--bare', '--initial-branch=none', '.');
  await run(git, 'config', '--local', 'remote.origin.url', url);
  return repository(folder, git, env);
}

async function run(git: SimpleGit, ...args: string[]): Promise<string> {
  try {
    return await git.raw(...args);
  } catch (error) {
    const message = error instanceof Error ? readable(error.message).slice(0, 300) : 'failed';
    throw message === notInstalled ? new GitMissing(message) : new BrokenRepository(`git ${args[0] ?? ''}: ${message}`);
  }
}

function localGit(folder: string, env: Record<string, string>): SimpleGit {
  return simpleGit({
    baseDir: folder,
    config: [...lockedDown, `safe.directory=${folder}`],
    allowEnvironment: [...Object.keys(env), 'GIT_DIR'],
    unsafe,
    maxConcurrentProcesses: 2,
    timeout: { block: 30_000 },
    // Its own error text may repeat arguments; ours says what matters.
    errors: (error, result) =>
      result.exitCode === 0 && error === undefined ? undefined : Buffer.from(failureText(result)),
  }).env({ ...env, GIT_DIR: folder });
}

/** simple-git tells of a git that could not be started in its stderr, with a stack. */
function failureText({ exitCode, stdErr }: { readonly exitCode: number; readonly stdErr: readonly Buffer[] }): string {
  const [first = ''] = Buffer.concat([...stdErr])
    .toString('utf8')
    .split('\n    at ');
  if (first.includes('spawn git ENOENT')) return notInstalled;
  return `git ended with code ${exitCode} (${readable(first).slice(0, 200)})`;
}

function leftovers(folder: string): boolean {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).some(
    (name) => name.endsWith('.lock') || path.basename(name).startsWith('tmp_'),
  );
}

function repository(folder: string, git: SimpleGit, env: Record<string, string>): GitRepository {
  const raw = (...args: string[]): Promise<string> => run(git, ...args);
  return {
    folder,
    commitOf: async (name) => {
      const text = await git
        .raw('rev-parse', '--verify', '--quiet', '--end-of-options', `${name}^{commit}`)
        .catch(() => '');
      return /^[0-9a-f]{40,64}$/.test(text.trim()) ? text.trim() : null;
    },
    listTree: async (tree, recursive) =>
      parseTree(await raw('ls-tree', ...(recursive ? ['-r'] : []), '-z', '--full-tree', '--end-of-options', tree)),
    missingBelow: async (tree) => {
      const text = await raw('rev-list', '--objects', '--no-walk', '--missing=print', '--end-of-options', tree);
      const lines = text.split('\n').filter((line) => line.startsWith('?'));
      return new Set(lines.map((line) => line.slice(1).split(' ')[0] ?? ''));
    },
    readBlobs: (ids, maxBytes, signal) => readBlobs({ folder, env, ids, maxBytes, signal }),
    // `merge-base --is-ancestor` answers by exit code, which simple-git does not pass on: compare the base itself.
    isAncestor: async (from, to) =>
      from === to || (await git.raw('merge-base', '--', from, to).catch(() => '')).trim() === from,
    isShallow: () => existsSync(path.join(folder, 'shallow')),
    setRef: async (name, commit) => {
      await raw('update-ref', '--end-of-options', name, commit);
    },
    signature: async (commit, config, extra) => {
      const signed = simpleGit({
        baseDir: folder,
        config: [...lockedDown, `safe.directory=${folder}`, ...config],
        allowEnvironment: [...Object.keys(env), ...Object.keys(extra), 'GIT_DIR'],
        unsafe,
        timeout: { block: 30_000 },
      }).env({ ...env, ...extra, GIT_DIR: folder });
      const text = await run(signed, 'log', '-1', '--no-show-signature', '--format=%G?', '--end-of-options', commit);
      return (/^[GBUXYREN]$/.exec(text.trim())?.[0] ?? 'E') as SignatureStatus;
    },
  };
}

function parseTree(text: string): readonly TreeEntry[] {
  const entries: TreeEntry[] = [];
  for (const record of text.split('\0')) {
    if (record === '') continue;
    const tab = record.indexOf('\t');
    const [mode = '', type = '', id = ''] = record.slice(0, tab).split(' ');
    entries.push({ mode, type, id, path: record.slice(tab + 1) });
  }
  return entries;
}

interface BlobRead {
  readonly folder: string;
  readonly env: Record<string, string>;
  readonly ids: readonly string[];
  readonly maxBytes: number;
  readonly signal: AbortSignal;
}

/** `cat-file --batch` needs bytes on stdin and bytes back, which simple-git does not carry. */
async function readBlobs(read: BlobRead): Promise<readonly Buffer[]> {
  if (read.ids.length === 0) return [];
  const run = await runGit({
    cwd: read.folder,
    config: [`safe.directory=${read.folder}`],
    args: ['cat-file', '--batch', '--buffer'],
    env: { ...read.env, GIT_DIR: read.folder },
    stdin: `${read.ids.join('\n')}\n`,
    timeoutMs: 60_000,
    maxOutput: read.maxBytes + read.ids.length * 100,
    signal: read.signal,
  });
  if (run.end === 'too-much-output') throw new RangeError('the files are larger than the limit');
  if (run.end !== 'exit' || run.code !== 0) throw new BrokenRepository(`git cat-file: ${run.stderr}`);
  return splitBatch(run.stdout, read.ids);
}

function splitBatch(bytes: Buffer, ids: readonly string[]): readonly Buffer[] {
  const blobs: Buffer[] = [];
  let at = 0;
  for (const id of ids) {
    const end = bytes.indexOf(10, at);
    const [found, type, size] = bytes.toString('latin1', at, end).split(' ');
    if (end < 0 || found !== id || type !== 'blob') throw new BrokenRepository(`git cat-file: no blob ${id}`);
    const start = end + 1;
    blobs.push(bytes.subarray(start, start + Number(size)));
    at = start + Number(size) + 1;
  }
  return blobs;
}
