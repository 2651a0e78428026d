import { rm } from 'node:fs/promises';
import path from 'node:path';
import { makeError, type Problem } from '../../model/problem.ts';
import { fail, getErrorCode, ok, type Result } from '../../model/result.ts';
import type { Descent, FirstSeen, Source, SourceContent, SourceReading } from '../../ports.ts';
import type { GitAccess } from './git-access.ts';
import type { GitTarget } from './git-address.ts';
import { Clone, type CloneSettings, incoming, measureClone, type RemoteTip } from './git-clone.ts';
import { type ContentSettings, loadContent } from './git-content.ts';
import { type GitAnswer, GitError, maxCommitBytes } from './git-repository.ts';
import { checkSignature, type SignatureKeys } from './git-signature.ts';
import { maxTreeBytes } from './git-tree.ts';
import { refuseTooLarge } from './limits.ts';

/** What a Git source is made from; every text in it has passed the checks of git-address.ts. */
export interface GitSettings extends ContentSettings, Pick<CloneSettings, 'remote' | 'timeoutMs' | 'environment'> {
  readonly target: GitTarget;
  /** With keys in it, commits must be signed by one of them. */
  readonly access: GitAccess & SignatureKeys;
  /** A private folder of this program; the clone lives in it and may be thrown away at any time. */
  readonly stateFolder: string;
}

// Deep enough that an ordinary push brings its own ancestry along.
const depth = 20;
const deepenBy = [100, 1000, null] as const;
// Shallow fetches leave a pack each: a fresh clone from time to time is cheaper than repacking.
const fetchesPerClone = 500;
/** Bytes that a fetch may bring, and memory that git may take: two of them fit into the volume and memory of deploy/. */
const defaultFetchBytes = 128 * 1024 * 1024;
/** Git and its helper for https need about a third of it for themselves. */
const leastMemory = 64 * 1024 * 1024;

/** Manifests from a Git remote, read by object from a bare clone. Only a new commit is fetched; a corrupt clone is made anew. */
export class GitSource implements Source {
  readonly description: string;
  readonly #settings: GitSettings;
  readonly #clone: CloneSettings;
  #cached: SourceContent | null = null;
  #isChecked = false;
  #fetches = 0;
  #tipSeen: RemoteTip | null = null;
  /** A commit that went beyond the limits: it is not fetched again and again. */
  #tooLarge: { readonly commit: string; readonly problem: Problem } | null = null;

  constructor(settings: GitSettings) {
    const { remote, target } = settings;
    const state = path.resolve(settings.stateFolder);
    this.description = `${remote.url} ${target.kind === 'commit' ? target.id : (target.names[0] ?? '')}`;
    this.#settings = settings;
    const fileBytes = settings.limits.fetchBytes ?? defaultFetchBytes;
    this.#clone = {
      ...settings,
      folder: path.join(state, 'clone.git'),
      home: path.join(state, 'home'),
      askpass: path.join(state, 'askpass'),
      caps: { memoryBytes: Math.max(fileBytes, leastMemory), fileBytes },
    };
  }

  async read(signal: AbortSignal, firstSeen: FirstSeen = {}): Promise<SourceReading> {
    let observed: string | undefined;
    const result = await this.#withClone<SourceContent>(signal, async (clone) => {
      const tip = await clone.askTip(this.#settings.target);
      if (!tip.ok) return tip;
      this.#tipSeen = tip.value;
      observed = tip.value.commit;
      if (this.#tooLarge?.commit === observed) return fail(this.#tooLarge.problem);
      const commit = await this.#fetchNew(clone, tip.value);
      if (!commit.ok) return commit;
      observed = commit.value;
      return this.#accept(clone, commit.value, firstSeen);
    });
    if (!result.ok && result.error.code === 'source-too-large' && observed !== undefined) {
      this.#tooLarge = { commit: observed, problem: result.error };
    }
    const isOld = this.#fetches > fetchesPerClone || measureClone(this.#clone.folder) > 2 * this.#clone.caps.fileBytes;
    if (isOld && result.ok) await this.#discard();
    return { ...readingOf(result), ...(observed === undefined ? {} : { observed }) };
  }

  async readAt(revision: string, signal: AbortSignal, firstSeen: FirstSeen = {}): Promise<SourceReading> {
    if (!/^[0-9a-f]{40,64}$/.test(revision)) {
      return readingOf(fail(makeError('git-revision', 'not a commit id', '')));
    }
    const result = await this.#withClone<SourceContent>(signal, async (clone) => {
      // Where another replica has applied it, and this one has not read it yet, it is fetched.
      const commit = await this.#fetchNew(clone, { commit: revision, fetchName: revision });
      return commit.ok ? this.#accept(clone, revision, firstSeen) : commit;
    });
    return readingOf(result);
  }

  async descends(from: string, to: string, signal: AbortSignal): Promise<Descent> {
    const result = await this.#withClone<Descent>(signal, async (clone) => {
      if (await clone.isAncestor(from, to)) return ok('yes');
      for (const commits of deepenBy) {
        if (!(await clone.isShallow())) return ok('no');
        if (this.#tipSeen === null) return ok('unknown');
        const deepened = await clone.deepen(this.#tipSeen, commits);
        if (!deepened.ok) return deepened;
        if (await clone.isAncestor(from, to)) return ok('yes');
      }
      return ok((await clone.isShallow()) ? 'unknown' : 'no');
    });
    return result.ok ? result.value : 'unasked';
  }

  /** Reads the files of its revision anew with the next read: how manifests are read has changed, so what they name may have. */
  forget(): void {
    this.#cached = null;
    this.#tooLarge = null;
  }

  /** Runs `work`; when the clone turns out to be broken, throws it away and runs `work` once more on a fresh one. */
  async #withClone<T>(signal: AbortSignal, work: (clone: Clone) => GitAnswer<T>): GitAnswer<T> {
    const clone = new Clone(this.#clone, signal);
    const makeAndWork = async (): GitAnswer<T> => {
      await clone.make(this.#isChecked);
      this.#isChecked = true;
      return await work(clone);
    };
    for (let attempt = 0; ; attempt++) {
      const result = await makeAndWork().catch(explainError);
      if (result.ok || result.error.code !== 'git-broken' || attempt > 0) return result;
      await this.#discard().catch(() => undefined); // what cannot be removed shows again in the second attempt
    }
  }

  async #discard(): Promise<void> {
    this.#fetches = 0;
    this.#isChecked = false;
    await rm(this.#clone.folder, { recursive: true, force: true });
  }

  async #fetchNew(clone: Clone, tip: RemoteTip): GitAnswer<string> {
    const have = await clone.commitOf(nameOf(tip.commit));
    if (have !== null) return ok(have);
    const fetched = await clone.fetchTip(tip, depth);
    if (!fetched.ok) return fetched;
    this.#fetches += 1;
    // The ref may have moved since it was asked for: what was fetched is what counts.
    const commit = await clone.commitOf(incoming);
    if (commit !== null) return ok(commit);
    return fail(makeError('git-ref-missing', 'the ref does not stand for a commit', 'correct --git-ref'));
  }

  /** The content of a commit that was fetched, provided that it is signed as required. */
  async #accept(clone: Clone, id: string, firstSeen: FirstSeen): GitAnswer<SourceContent> {
    const { access } = this.#settings;
    if (access.gitVerifyOpenpgp != null || access.gitVerifySsh != null) {
      const commit = { id, bytes: await clone.readCommit(id), seenAt: firstSeen[id] ?? Date.now() };
      const refusal = await checkSignature(commit, access, this.#clone.home);
      if (refusal !== null) return fail(refusal);
    }
    const content = await this.#load(clone, id);
    if (content.ok) await clone.keep(nameOf(id), id);
    return content;
  }

  async #load(clone: Clone, commit: string): GitAnswer<SourceContent> {
    if (this.#cached?.revision === commit) return ok(this.#cached);
    const fetchObjects = (ids: readonly string[]) => clone.fetchObjects(ids);
    const content = await loadContent({ repository: clone, settings: this.#settings, commit, fetchObjects });
    if (!content.ok) return content;
    // Their name, without the address.
    const [, author = ''] = /^author (.*?) ?</m.exec(String(await clone.readCommit(commit))) ?? [];
    this.#cached = { ...content.value, author: author.slice(0, 100) };
    return ok(this.#cached);
  }
}

function nameOf(commit: string): string {
  return `refs/reconcile/have/${commit}`;
}

function readingOf(result: Result<SourceContent, Problem>): SourceReading {
  return result.ok
    ? { content: result.value, problems: result.value.notes ?? [] }
    : { content: null, problems: [result.error] };
}

const hints: Readonly<Record<GitError['code'], string>> = {
  'git-broken': 'it is discarded and fetched again',
  'git-not-started': 'install git',
  'git-timeout': 'it is tried again',
  'git-aborted': 'nothing to do',
};

function explainError(error: unknown): { readonly ok: false; readonly error: Problem } {
  const code = getErrorCode(error, '');
  if (code === 'ENOSPC' || code === 'EDQUOT') return fail(diskFull);
  if (error instanceof GitError) {
    if (/No space left on device|Disk quota exceeded/i.test(error.message)) return fail(diskFull);
    return fail(makeError(error.code, `the clone cannot be read (${error.message})`, hints[error.code]));
  }
  if (error instanceof RangeError)
    return fail(refuseTooLarge(`the commit is larger than ${maxCommitBytes} bytes, its folders than ${maxTreeBytes}`));
  if (!/^E[A-Z]+$/.test(code)) throw error;
  const summary = `the state folder cannot be used (${code})`;
  return fail(makeError('git-state', summary, 'check that it exists and may be written'));
}

const diskFull = makeError('git-disk-full', 'no space is left for the Git clone', 'free space in the state folder');
