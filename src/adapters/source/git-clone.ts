import { existsSync, readdirSync, statSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fail, ok } from '../../model/result.ts';
import { askpassScript, connectTo } from './git-access.ts';
import type { GitTarget } from './git-address.ts';
import { type GitCommand, runGit } from './git-process.ts';
import { chooseTip, explainRemote, type RemoteSettings, type RemoteTip } from './git-remote.ts';
import { type GitAnswer, GitRepository } from './git-repository.ts';

/** A remote and the clone of it, and what all runs of git for the two get. */
export interface CloneSettings extends RemoteSettings {
  readonly folder: string;
  /** Git's home, which is empty. */
  readonly home: string;
  readonly askpass: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** The name under which a fetched tip is kept until it is checked. */
export const incoming = 'refs/reconcile/incoming';

const quiet = ['--quiet', '--no-tags', '--no-recurse-submodules', '--no-auto-maintenance', '--no-write-fetch-head'];
const withoutBlobs = '--filter=blob:none';
// Deepening is about ancestry alone: with this filter only commits travel.
const commitsOnly = '--filter=tree:0';
/** A fetch notes that the remote promises what it left out; then git dies at a missing object instead of naming it. */
const forgetPromise = ['config', '--local', '--unset-all', 'remote.origin.partialclonefilter'];

/** One run of git that may reach the remote; outside of the clone, so that a damaged one cannot stand in the way of asking. */
type Call = Pick<GitCommand, 'gitDir' | 'args' | 'config' | 'stdin'>;

/** A bare repository of our own, for the runs that one signal stops; what the remote answers badly is a problem for a person. */
export class Clone extends GitRepository {
  readonly #settings: CloneSettings;

  constructor(settings: CloneSettings, signal: AbortSignal) {
    const { folder: gitDir, home, environment, caps } = settings;
    super({ gitDir, home, environment, caps, signal });
    this.#settings = settings;
  }

  /**
   * Makes the clone, unless it is there. One of another URL is removed first, and so is what a killed git left in it. `isChecked`: this
   * process has found it good before, and looks only whether all of it is still there.
   */
  async make(isChecked: boolean): Promise<void> {
    const { folder, home, askpass, remote } = this.#settings;
    const head = path.join(folder, 'HEAD');
    if (isChecked && [head, home, askpass].every((part) => existsSync(part))) return;
    await mkdir(home, { recursive: true, mode: 0o700 });
    await writeFile(askpass, askpassScript, { mode: 0o700 });
    if (existsSync(folder)) await removeLeftovers(folder);
    if (existsSync(head) && (await this.originUrl()) === remote.url)
      return void (await this.run(forgetPromise, [0, 5]));
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await this.run(['init', '--quiet', '--bare', '--initial-branch=none', folder]);
    await this.run(['config', '--local', 'remote.origin.url', remote.url]);
  }

  /** Keeps a commit, by a name of ours, from being collected. */
  async keep(name: string, commit: string): Promise<void> {
    await this.run(['update-ref', '--end-of-options', name, commit]);
  }

  /** What the remote has behind the target. */
  async askTip(target: GitTarget): GitAnswer<RemoteTip> {
    if (target.kind === 'commit') return ok({ commit: target.id, fetchName: target.id });
    const patterns = target.names.flatMap((name) => (name === 'HEAD' ? [name] : [name, `${name}^{}`]));
    const args = ['ls-remote', '--quiet', '--end-of-options', this.#settings.remote.url, ...patterns];
    const refs = await this.#ask({ gitDir: null, args });
    return refs.ok ? chooseTip(refs.value, target.names) : refs;
  }

  /** Fetches the tip with at most `depth` commits, without blobs where the server can. */
  fetchTip({ fetchName }: RemoteTip, depth: number): GitAnswer<null> {
    return this.#fetch([withoutBlobs, `--depth=${depth}`, '--end-of-options', 'origin', `+${fetchName}:${incoming}`]);
  }

  /** Fetches these objects, in one request. */
  fetchObjects(ids: readonly string[]): GitAnswer<null> {
    const given = { stdin: `${ids.join('\n')}\n`, config: ['fetch.negotiationAlgorithm=noop'] };
    return this.#fetch([withoutBlobs, '--stdin', '--end-of-options', 'origin'], given);
  }

  /** Fetches `commits` more of the history of what is here; null: all of it. */
  deepen({ fetchName }: RemoteTip, commits: number | null): GitAnswer<null> {
    const how = commits === null ? '--unshallow' : `--deepen=${commits}`;
    return this.#fetch([commitsOnly, how, '--end-of-options', 'origin', `+${fetchName}:${incoming}`]);
  }

  async #fetch(args: readonly string[], { config = [], ...given }: Pick<Call, 'stdin' | 'config'> = {}) {
    const { gitDir } = this.context;
    const all = ['remote.origin.promisor=true', ...config];
    const fetched = await this.#ask({ ...given, gitDir, args: ['fetch', ...quiet, ...args], config: all });
    await this.run(forgetPromise, [0, 5]).catch(() => undefined); // the next start does it again
    if (!fetched.ok) await removeLeftovers(gitDir);
    return fetched.ok ? ok(null) : fetched;
  }

  async #ask(call: Call): GitAnswer<string> {
    const { remote, access, askpass, timeoutMs } = this.#settings;
    const connection = connectTo(remote, access, askpass);
    const run = await runGit({ ...this.context, ...call, connection, timeoutMs, maxOutput: 16_000_000 });
    const isGood = run.end === 'exit' && run.code === 0;
    return isGood ? ok(run.stdout.toString('utf8')) : fail(explainRemote(run, this.#settings, call.gitDir !== null));
  }
}

/** Removes the locks and the half-written packs of a git that was killed: nobody else works in this folder. */
async function removeLeftovers(folder: string): Promise<void> {
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (!name.endsWith('.lock') && !path.basename(name).startsWith('tmp_')) continue;
    await rm(path.join(folder, name), { recursive: true, force: true });
  }
}

/** Bytes of the packs of a clone, which is nearly all of it. */
export function measureClone(folder: string): number {
  const packs = path.join(folder, 'objects/pack');
  if (!existsSync(packs)) return 0;
  return readdirSync(packs).reduce((sum, name) => sum + statSync(path.join(packs, name)).size, 0);
}
