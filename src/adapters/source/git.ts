import { existsSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Problem } from '../../model/problem.ts';
import type { ProblemCode } from '../../model/problem-code.ts';
import type { Result } from '../../model/result.ts';
import { fail, ok } from '../../model/result.ts';
import type { Descent, Source, SourceContent, SourceReading } from '../../ports.ts';
import type { GitRemote, GitTarget } from './git-address.ts';
import type { ContentSettings } from './git-content.ts';
import { loadContent } from './git-content.ts';
import type { GitAccess, GitHome } from './git-process.ts';
import { askpassScript } from './git-process.ts';
import type { RemoteCalls, RemoteTip } from './git-remote.ts';
import { incoming, remoteCalls } from './git-remote.ts';
import type { GitRepository } from './git-repository.ts';
import { BrokenRepository, GitMissing, openRepository } from './git-repository.ts';
import type { SignatureKeys } from './git-signature.ts';
import { checkSignature } from './git-signature.ts';

/** What a Git source is made from; every text in it has passed the checks of git-address.ts. */
export interface GitSettings extends ContentSettings {
  readonly remote: GitRemote;
  readonly target: GitTarget;
  readonly access: GitAccess;
  /** Commits must be signed by one of these keys; null: signatures are not looked at. */
  readonly verify: SignatureKeys | null;
  /** A private folder of this program; the clone lives in it and may be thrown away at any time. */
  readonly stateFolder: string;
  /** Deadline of one call to the remote, ms. */
  readonly timeoutMs: number;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** A Git source, and what only the program's end needs. */
export interface GitSource extends Source {
  readAt(revision: string, signal: AbortSignal): Promise<SourceReading>;
  descends(from: string, to: string, signal: AbortSignal): Promise<Descent>;
  /** Reads the files of its revision anew with the next read: how manifests are read has changed, so what they name may have. */
  forget(): void;
}

// Deep enough that an ordinary push brings its own ancestry along.
const depth = 20;
const deepenBy = [100, 1000, null] as const;
// Shallow fetches leave a pack each: a fresh clone from time to time is cheaper than repacking.
const fetchesPerClone = 500;

/**
 * Manifests from a Git remote, read as objects from a bare repository of our own: no checkout, no hook, no filter, no
 * submodule. The commit of the ref is asked for first, and only a new one is fetched. A clone that is locked or corrupt is
 * discarded and fetched again.
 */
export function gitSource(settings: GitSettings): GitSource {
  const state = path.resolve(settings.stateFolder);
  const home: GitHome = { home: path.join(state, 'home'), askpass: path.join(state, 'askpass') };
  const folder = path.join(state, 'clone.git');
  let repository: GitRepository | null = null;
  let cached: SourceContent | null = null;
  let fetches = 0;
  let tipSeen: RemoteTip | null = null;

  const opened = (): GitRepository => {
    if (repository === null) throw new BrokenRepository('the clone is not open');
    return repository;
  };
  const calls = remoteCalls(
    {
      remote: settings.remote,
      access: settings.access,
      home,
      environment: settings.environment,
      timeoutMs: settings.timeoutMs,
    },
    opened,
  );
  const open = async (): Promise<GitRepository> => {
    // Somebody may have removed them under us: a git whose directory is gone cannot even be started.
    if (repository !== null && existsSync(folder) && existsSync(home.home) && existsSync(home.askpass))
      return repository;
    await mkdir(home.home, { recursive: true, mode: 0o700 });
    await writeFile(home.askpass, askpassScript, { mode: 0o700 });
    repository = await openRepository(folder, settings.remote.url, home, settings.environment);
    return repository;
  };
  const discard = async (): Promise<void> => {
    repository = null;
    fetches = 0;
    await rm(folder, { recursive: true, force: true });
  };
  /** Runs `work`; when the clone turns out to be broken, throws it away and runs `work` once more on a fresh one. */
  const withClone = async <T>(
    work: (repo: GitRepository) => Promise<Result<T, Problem>>,
  ): Promise<Result<T, Problem>> => {
    for (let attempt = 0; ; attempt++) {
      const result = await open().then(work).catch(asProblem);
      if (result.ok || result.error.code !== 'git-broken' || attempt > 0) return result;
      await discard().catch(() => undefined); // what cannot be removed shows again in the second attempt
    }
  };

  const load = async (commit: string, signal: AbortSignal): Promise<Result<SourceContent, Problem>> => {
    if (cached?.revision === commit) return ok(cached);
    const result = await loadContent({ repository: opened(), calls, settings, commit, signal });
    if (result.ok) cached = result.value;
    return result;
  };

  /** The content of a commit that was fetched, provided that it is signed as required. */
  const accept = async (repo: GitRepository, commit: string, signal: AbortSignal) => {
    const refusal = settings.verify === null ? null : await checkSignature(repo, commit, settings.verify, home.home);
    if (refusal !== null) return fail(refusal);
    const content = await load(commit, signal);
    if (content.ok) await repo.setRef(`refs/reconcile/have/${commit}`, commit);
    return content;
  };

  return {
    description: `${settings.remote.url} ${settings.target.kind === 'commit' ? settings.target.id : (settings.target.names[0] ?? '')}`,
    async read(signal) {
      let observed: string | undefined;
      const result = await withClone<SourceContent>(async (repo) => {
        const tip = await calls.tip(settings.target, signal);
        if (!tip.ok) return tip;
        tipSeen = tip.value;
        const fetched = await fetchNew(repo, calls, tip.value, signal);
        if (!fetched.ok) return fetched;
        if (fetched.value.fetched) fetches += 1;
        const commit = fetched.value.commit;
        observed = commit;
        return accept(repo, commit, signal);
      });
      if (fetches > fetchesPerClone) await discard();
      return { ...reading(result), ...(observed === undefined ? {} : { observed }) };
    },
    async readAt(revision, signal) {
      const result = await withClone<SourceContent>(async (repo) => {
        if (!/^[0-9a-f]{40,64}$/.test(revision)) return fail(problem('git-revision', 'not a commit id', ''));
        if ((await repo.commitOf(`refs/reconcile/have/${revision}`)) === null) {
          // Another replica has applied it, and this one has not read it yet.
          const fetched = await calls.fetchTip({ commit: revision, fetchName: revision }, depth, signal);
          return fetched.ok ? accept(repo, revision, signal) : fetched;
        }
        return load(revision, signal);
      });
      return reading(result);
    },
    async descends(from, to, signal) {
      const result = await withClone<Descent>(async (repo) => {
        if (await repo.isAncestor(from, to)) return ok('yes');
        for (const commits of deepenBy) {
          if (!repo.isShallow()) return ok('no');
          if (tipSeen === null) return ok('unknown');
          const deepened = await calls.deepen(tipSeen, commits, signal);
          if (!deepened.ok) return deepened;
          if (await repo.isAncestor(from, to)) return ok('yes');
        }
        return ok(repo.isShallow() ? 'unknown' : 'no');
      });
      return result.ok ? result.value : 'unasked';
    },
    forget() {
      cached = null;
    },
  };
}

async function fetchNew(
  repo: GitRepository,
  calls: RemoteCalls,
  tip: RemoteTip,
  signal: AbortSignal,
): Promise<Result<{ readonly commit: string; readonly fetched: boolean }, Problem>> {
  const have = await repo.commitOf(`refs/reconcile/have/${tip.commit}`);
  if (have !== null) return ok({ commit: have, fetched: false });
  const fetched = await calls.fetchTip(tip, depth, signal);
  if (!fetched.ok) return fetched;
  // The ref may have moved since it was asked for: what was fetched is what counts.
  const commit = await repo.commitOf(incoming);
  if (commit === null)
    return fail(problem('git-ref-missing', 'the ref does not stand for a commit', 'correct --git-ref'));
  return ok({ commit, fetched: true });
}

function reading(result: Result<SourceContent, Problem>): SourceReading {
  return result.ok ? { content: result.value, problems: [] } : { content: null, problems: [result.error] };
}

function asProblem(error: unknown): { readonly ok: false; readonly error: Problem } {
  if (error instanceof GitMissing) return fail(problem('git-not-started', error.message, 'install git'));
  if (error instanceof BrokenRepository) {
    if (/No space left on device|Disk quota exceeded/i.test(error.message)) return fail(diskFull);
    return fail(
      problem('git-broken', `the clone cannot be read (${error.message})`, 'it is discarded and fetched again'),
    );
  }
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    return fail(diskFull);
  }
  if (/^E[A-Z]+$/.test(code)) {
    return fail(
      problem('git-state', `the state directory cannot be used (${code})`, 'check that it exists and may be written'),
    );
  }
  throw error;
}

const diskFull: Problem = {
  code: 'git-disk-full',
  severity: 'error',
  summary: 'no space is left for the Git clone',
  hint: 'free space in the state directory',
};

function problem(code: ProblemCode, summary: string, hint: string): Problem {
  return { code, severity: 'error', summary, hint };
}
