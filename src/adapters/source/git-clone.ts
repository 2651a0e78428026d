import { existsSync, readdirSync, statSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { makeError, type Problem } from '../../model/problem.ts';
import type { ProblemCode } from '../../model/problem-code.ts';
import { attempt, fail, ok, type Result } from '../../model/result.ts';
import { hideSecrets } from '../hide-secrets.ts';
import type { ProcessCaps, ProcessRun } from '../run-process.ts';
import { askpassScript, connectTo, type GitAccess, readOrigin } from './git-access.ts';
import type { GitRemote, GitTarget } from './git-address.ts';
import { type GitCommand, isCapped, runGit } from './git-process.ts';
import { type GitAnswer, GitRepository } from './git-repository.ts';
import { refuseTooLarge } from './limits.ts';
import { readOperatorFile } from './regular-file.ts';

interface RemoteSettings {
  readonly remote: GitRemote;
  readonly access: GitAccess;
  readonly timeoutMs: number;
  readonly caps: ProcessCaps;
}

/** What stands behind the operator's ref on the remote: the commit, and the name to fetch it by. */
export type RemoteTip = Readonly<Record<'commit' | 'fetchName', string>>;

/** Which of the names the remote has, by what `git ls-remote` printed; the first counts, two are one too many. */
function chooseTip(text: string, names: readonly string[]): Result<RemoteTip, Problem> {
  const ids = new Map<string, string>();
  for (const line of text.split('\n')) {
    const [id = '', name = ''] = line.split('\t');
    if (/^[0-9a-f]{40,64}$/.test(id)) ids.set(name, id);
  }
  const found = names.filter((name) => ids.has(name));
  const [name] = found;
  if (name === undefined) {
    const hint = 'push the ref, or correct --git-ref; nothing is deleted because of this';
    return fail(makeError('git-ref-missing', `the remote has no ${names.join(' or ')}`, hint));
  }
  const both = `the remote has ${found.join(' and ')}`;
  if (found.length > 1) return fail(makeError('git-ref-ambiguous', both, 'write the one you mean in full'));
  return ok({ commit: ids.get(`${name}^{}`) ?? ids.get(name) ?? '', fetchName: name });
}

const causes: readonly (readonly [RegExp, ProblemCode, string, string])[] = [
  [
    /could not read (Username|Password)|Authentication failed|Permission denied \(|HTTP Basic|requested URL returned error: 40[13]/i,
    'git-auth',
    'the Git remote did not accept the credentials',
    'check that --git-token-file, or --git-ssh-key for ssh, may read the repository; a key with a passphrase cannot be used',
  ],
  [
    /REMOTE HOST IDENTIFICATION HAS CHANGED/i,
    'git-host-key',
    'the Git server’s SSH host key is another one than in the known_hosts file: it was renewed, or somebody else answers',
    'compare the key with the one its operator publishes before you put it into --git-known-hosts',
  ],
  [
    /Host key verification failed/i,
    'git-host-key',
    'the Git server’s SSH host key is not in the known_hosts file',
    'compare the key with the one its operator publishes and put it into --git-known-hosts',
  ],
  [
    /No space left on device|Disk quota exceeded/i,
    'git-disk-full',
    'no space is left for the Git clone',
    'free space in the state folder',
  ],
  [
    /SSL|certificate|TLS/i,
    'git-tls',
    'the TLS certificate of the Git server was not accepted',
    'check its certificate, or name its authority with --git-ca-file',
  ],
  [
    /redirect|returned error: 30\d/i,
    'git-redirect',
    'the Git server redirects to another address',
    'write the new address in --git-url: credentials do not follow redirects',
  ],
  [
    /couldn't find remote ref|not our ref|unadvertised object|no such remote ref/i,
    'git-ref-missing',
    'the remote does not have the ref or commit',
    'correct --git-ref; nothing is deleted because of this',
  ],
  [
    /not found|does not appear to be a git repository|returned error: 404/i,
    'git-repository-missing',
    'there is no Git repository at the address',
    'check --git-url and that the credentials may see it',
  ],
];

const network =
  /could not resolve|couldn't connect|failed to connect|connection (?:refused|reset|closed|timed out)|timed out|unreachable|no route|early EOF|hung up|RPC failed|disconnect|curl \d+|returned error: \d{3}|unable to access|ssh: /i;

/** Why a run failed. With `onClone`, what is neither the remote's fault nor the network's is the clone's: it may be damaged in any way. */
function explainRemote(run: ProcessRun, settings: RemoteSettings, onClone: boolean): Problem {
  if (run.end === 'timeout') {
    const summary = `the Git remote did not finish within ${settings.timeoutMs / 1000} s; git was ended`;
    return makeError('git-timeout', summary, 'it is tried again; raise --git-timeout if the network is slow');
  }
  if (run.end === 'aborted') return makeError('git-aborted', 'the Git call was stopped', 'nothing to do');
  if (run.end === 'too-much-output')
    return makeError('git-failed', 'the Git remote sent far too much', 'check --git-url');
  if (isCapped(run)) {
    const { fileBytes } = settings.caps;
    return refuseTooLarge(`a fetch brings more than ${fileBytes} bytes, or needs as much memory`, 'limits.fetchBytes');
  }
  if (run.end === 'not-started')
    return makeError('git-not-started', `git could not be started: ${run.stderr}`, 'install git');
  const words = hideToken(run, settings.access);
  const asked = /could not read (?:Username|Password) for '([^']*)'/.exec(words)?.[1]?.replace(/\/\/.*@/, '//');
  if (asked !== undefined && asked !== readOrigin(settings.remote)) {
    const summary = `${asked} asked for credentials on the way to the Git remote, and got none`;
    const hint = 'write user and password into the proxy’s URL, or reach the remote without it';
    return makeError('git-proxy-auth', summary, hint);
  }
  const cause = causes.find(([pattern]) => pattern.test(run.stderr));
  const said = words.replace(/@{5,}/g, '').trim().slice(0, 300); // ssh draws boxes
  if (cause !== undefined) return makeError(cause[1], `${cause[2]} (git: ${said})`, cause[3]);
  const code = onClone && !network.test(run.stderr) ? 'git-broken' : 'git-unreachable';
  const hint = 'it is tried again; check the network and --git-url';
  return makeError(code, `the Git remote could not be read (git: ${said})`, hint);
}

/** What git said, without the token: the remote's own words are in it, and may quote the request. */
function hideToken({ stderr }: ProcessRun, { gitTokenFile: file }: GitAccess): string {
  // git could not read it either
  return attempt(() => {
    const tokens = file == null ? [] : readOperatorFile(file, 1_000_000).toString('utf8').split('\n');
    const words = hideSecrets(stderr.replaceAll('remote: ', ''), tokens);
    return String(words ?? 'its words are not shown: they quote the token');
  }, stderr);
}

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
