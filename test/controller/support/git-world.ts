import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type GitSettings, GitSource } from '../../../src/adapters/source/git.ts';
import { type GitRemote, parseGitPath, parseRef, parseRemote } from '../../../src/adapters/source/git-address.ts';
import { defaultLimits } from '../../../src/desired/context.ts';
import type { GitHost, Upstream } from './git-host.ts';
import { makeUpstream, serveGit } from './git-host.ts';

/** What a test's source differs in; `ref` and `at` as an operator writes them. */
export type SourceOptions = Partial<GitSettings> & { readonly ref?: string; readonly at?: string };

/** An upstream, its host, and a state folder of our own. */
export interface GitWorld {
  readonly upstream: Upstream;
  readonly host: GitHost;
  readonly state: string;
  /** A Git source of that upstream; a second one is like a restart. */
  source(options?: SourceOptions): GitSource;
  close(): Promise<void>;
}

/** A host's repository, as an operator names it. */
export function remoteOf(host: GitHost): GitRemote {
  const remote = parseRemote(`${host.url}/repo.git`, ['http']);
  if (!remote.ok) throw new Error(remote.error);
  return remote.value;
}

export async function makeGitWorld(): Promise<GitWorld> {
  const upstream = makeUpstream();
  const host = await serveGit(upstream);
  const state = mkdtempSync(path.join(tmpdir(), 'git-state-'));
  return {
    upstream,
    host,
    state,
    source: ({ ref = 'main', at = '', ...settings } = {}) => {
      const target = parseRef(ref);
      const parts = parseGitPath(at);
      if (!target.ok || !parts.ok) throw new Error('bad test settings');
      return new GitSource({
        remote: remoteOf(host),
        target: target.value,
        path: parts.value,
        access: {},
        stateFolder: state,
        limits: defaultLimits,
        timeoutMs: 20_000,
        environment: process.env,
        references: () => Promise.resolve([]),
        ...settings,
      });
    },
    async close() {
      await host.close();
      upstream.remove();
      chmodSync(state, 0o700);
      rmSync(state, { recursive: true, force: true });
    },
  };
}
