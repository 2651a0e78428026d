import type { Commit } from '../../model/commit.ts';
import type { Problem } from '../../model/problem.ts';
import type { Result } from '../../model/result.ts';
import type { ProcessRun } from '../run-process.ts';
import { type GitCommand, isCapped, runGit, runShortGit } from './git-process.ts';

/** One entry of a tree: its name alone, or its path below a tree. */
export interface TreeEntry {
  readonly path: string;
  readonly id: string;
  readonly type: 'file' | 'link' | 'tree' | 'submodule';
}

/** What somebody asked of a repository, or for a person why there is no answer. */
export type GitAnswer<T> = Promise<Result<T, Problem>>;

/** Why a question to a repository has no answer. */
export class GitError extends Error {
  override readonly name = 'GitError';
  /** `git-broken`: it cannot be worked with, or lacks an object. */
  readonly code: (typeof ends)[keyof typeof ends][0];

  constructor(code: GitError['code'], message: string) {
    super(message);
    this.code = code;
  }
}

export type RepositoryContext = Pick<GitCommand, 'environment' | 'home' | 'caps' | 'signal'> & {
  readonly gitDir: string;
};

const timeoutMs = 60_000;
/** Far more than any command here writes that does not write contents. */
const shortOutput = 64_000;

/** Reading a repository by object: no work tree, no network (but for `askOrigin`), nothing of its configuration is run. */
export class GitRepository {
  protected readonly context: RepositoryContext;

  constructor(context: RepositoryContext) {
    this.context = context;
  }

  /** The commit that a name stands for; null when it is not there. The name must have passed a check: git reads `A..B`, `:/text`. */
  async commitOf(name: string): Promise<string | null> {
    const args = ['rev-parse', '--verify', '--quiet', '--end-of-options', `${name}^{commit}`];
    const { code, text } = await this.run(args, [0, 1, 128]);
    return code === 0 && /^[0-9a-f]{40,64}$/.test(text) ? text : null;
  }

  /** What these objects are (ids, or `COMMIT^{tree}`), in their order; null for one that is not here. */
  async headsOf(asked: readonly string[]) {
    if (asked.length === 0) return [];
    const lines = (await this.#catFile('--batch-check', asked, asked.length * 5000)).toString('latin1').split('\n');
    return asked.map((_, index) => headOf(lines[index] ?? ''));
  }

  /** The entries of trees (ids, or `COMMIT^{tree}`), in their order. Throws a `RangeError` when they have more than `maxBytes` together. */
  async readTrees(asked: readonly string[], maxBytes: number) {
    const trees = await this.#readObjects('tree', asked, maxBytes);
    // Entries are read while they are asked for, once.
    return trees.map(({ id, bytes }) => ({ entries: parseTree(bytes, id.length / 2), bytes: bytes.length }));
  }

  /** Contents of blobs by id. Throws a `RangeError` when they have more than `maxBytes` together. */
  async readBlobs(ids: readonly string[], maxBytes: number): Promise<ReadonlyMap<string, Buffer>> {
    return new Map((await this.#readObjects('blob', ids, maxBytes)).map(({ id, bytes }) => [id, bytes]));
  }

  /** A commit as it is stored. Throws a `RangeError` beyond a megabyte. */
  async readCommit(id: string): Promise<Buffer> {
    const [commit] = await this.#readObjects('commit', [id], maxCommitBytes);
    return commit?.bytes ?? Buffer.alloc(0);
  }

  /** The history of a commit, parents before children. Throws a `RangeError` beyond some 200,000 commits. */
  async historyOf(id: string): Promise<readonly Commit[]> {
    const format = '--format=%H%x00%P%x00%ct%x00%an%x00%s';
    const args = ['rev-list', '--topo-order', '--reverse', '--encoding=UTF-8', format, '--end-of-options', id];
    const output = await this.#readOutput(args, mostHistory);
    return output.toString('utf8').split('\n').flatMap(parseCommit);
  }

  /** Whether `to` holds `from` in its history, as far as the history is here. */
  async isAncestor(from: string, to: string): Promise<boolean> {
    if (from === to) return true;
    return (await this.run(['merge-base', '--is-ancestor', from, to], [0, 1, 128])).code === 0;
  }

  /** The nearest commit that both hold in their history; null when none is here. */
  async mergeBaseOf(a: string, b: string): Promise<string | null> {
    const { code, text } = await this.run(['merge-base', a, b], [0, 1]);
    return code === 0 ? text.split('\n')[0] || null : null;
  }

  /** These attributes of these paths that are set, by the index: `[path, attribute, value]`. */
  async attributesOf(paths: readonly string[], names: readonly string[]) {
    const asked = paths.map((path) => `${path}\0`).join('');
    const args = ['check-attr', '--cached', '-z', '--stdin', ...names];
    const output = await this.#readOutput(args, names.length * (2 * asked.length + 200 * paths.length), asked);
    const found = [...output.toString('utf8').matchAll(/([^\0]*)\0([^\0]*)\0([^\0]*)\0/g)].map(([, ...parts]) => parts);
    return found.filter(([, , value = '']) => !['unspecified', 'unset'].includes(value));
  }

  /** Where `origin` is; empty without one. */
  async originUrl(): Promise<string> {
    return (await this.run(['config', '--local', '--get', 'remote.origin.url'], [0, 1, 128])).text;
  }

  /** What a command that talks to `origin` wrote; null where that does not answer, or refuses. */
  async askOrigin(command: readonly string[], name: string): Promise<string | null> {
    const args = [...command, '--upload-pack=git-upload-pack', '--end-of-options', 'origin', name];
    const connection = { protocol: 'https:file', env: {}, config: [] } as const;
    const run = await runGit({ ...this.context, args, connection, timeoutMs: 30_000, maxOutput: shortOutput });
    return run.end === 'exit' && run.code === 0 ? run.stdout.toString() : null;
  }

  async isShallow(): Promise<boolean> {
    return (await this.run(['rev-parse', '--is-shallow-repository'])).text === 'true';
  }

  /** Runs a short command; throws when git is missing, or ends with another code than `good`. */
  protected async run(args: readonly string[], good: readonly (number | null)[] = [0]) {
    const run = await runShortGit({ ...this.context, args, timeoutMs, maxOutput: shortOutput });
    if (run.end !== 'exit' || !good.includes(run.code)) throw explainRun(args[0] ?? '', run);
    return { code: run.code, text: run.stdout.toString('utf8').trim() };
  }

  /** What a command wrote whose output may be long; throws a `RangeError` beyond `maxOutput`. */
  async #readOutput(args: readonly string[], maxOutput: number, stdin = ''): Promise<Buffer> {
    const run = await runGit({ ...this.context, args, maxOutput, stdin, timeoutMs });
    const [name = ''] = args;
    if (run.end === 'too-much-output' || isCapped(run)) throw new RangeError(`git ${name} came to its limits`);
    if (run.end !== 'exit' || run.code !== 0) throw explainRun(name, run);
    return run.stdout;
  }

  /** `cat-file` with these objects on its input, whose answers come in the same order. */
  #catFile(how: '--batch' | '--batch-check', asked: readonly string[], maxOutput: number) {
    return this.#readOutput(['cat-file', how, '--buffer'], maxOutput, `${asked.join('\n')}\n`);
  }

  async #readObjects(type: 'tree' | 'blob' | 'commit', asked: readonly string[], maxBytes: number) {
    if (asked.length === 0) return [];
    const answer = await this.#catFile('--batch', asked, maxBytes + asked.length * 100);
    const found: { readonly id: string; readonly bytes: Buffer }[] = [];
    let at = 0;
    for (const name of asked) {
      const end = answer.indexOf(10, at);
      const head = end < 0 ? null : headOf(answer.toString('latin1', at, end));
      if (head?.type !== type) throw new GitError('git-broken', `git cat-file: no ${type} ${name}`);
      found.push({ id: head.id, bytes: answer.subarray(end + 1, end + 1 + head.bytes) });
      at = end + 1 + head.bytes + 1;
    }
    return found;
  }
}

const ends = {
  'not-started': ['git-not-started', 'git cannot be found'],
  timeout: ['git-timeout', `git did not end within ${timeoutMs / 1000} s`],
  aborted: ['git-aborted', 'git was stopped'],
  'too-much-output': ['git-broken', 'git wrote more than there can be'],
} as const satisfies Record<Exclude<ProcessRun['end'], 'exit'>, readonly [string, string]>;

function explainRun(command: string, { end, code, stderr }: ProcessRun): GitError {
  if (end === 'exit') return new GitError('git-broken', `git ${command} ended with ${code}: ${stderr.slice(0, 200)}`);
  const [reason, message] = ends[end];
  return new GitError(reason, message);
}

/** An object that is here; `id` is what it was asked for by, when that was an id. */
function headOf(line: string) {
  const [, id = '', type = '', bytes] = /^([0-9a-f]{40,64}) ([a-z]+) ([0-9]+)$/.exec(line) ?? [];
  return bytes === undefined ? null : { id, type, bytes: Number(bytes) };
}

export const maxCommitBytes = 1_000_000;

/** More output than this, in bytes, a history may not take. */
const mostHistory = 48_000_000;

/** A line of the history; before each stands one that names the commit again, and nothing else. */
function parseCommit(line: string): readonly Commit[] {
  const [id = '', parents = '', time, author = '', subject = ''] = line.split('\0');
  if (time === undefined) return [];
  return [{ id, parents: parents.split(' ').filter(Boolean), time: Number(time) * 1000, author, subject }];
}

/** A tree object: `MODE NAME\0ID` for each entry, the id in bytes. */
function* parseTree(bytes: Buffer, idBytes: number): Iterable<TreeEntry> {
  for (let at = 0; at < bytes.length; ) {
    const space = bytes.indexOf(32, at);
    const zero = bytes.indexOf(0, space);
    if (space < 0 || zero < 0) throw new GitError('git-broken', 'git cat-file: not a tree');
    const type = typeOf(bytes.toString('latin1', at, space));
    at = zero + 1 + idBytes;
    yield { path: bytes.toString('utf8', space + 1, zero), id: bytes.toString('hex', zero + 1, at), type };
  }
}

function typeOf(mode: string): TreeEntry['type'] {
  if (mode === '160000') return 'submodule';
  if (mode === '120000') return 'link';
  return mode.endsWith('40000') ? 'tree' : 'file';
}
