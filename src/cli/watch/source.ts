import path from 'node:path';
import { systemClock } from '../../adapters/clock.ts';
import { createDirectorySource } from '../../adapters/source/directory.ts';
import type { GitSettings } from '../../adapters/source/git.ts';
import { parseGitPath, parseRef, parseRemote } from '../../adapters/source/git-address.ts';
import { watchDirectory } from '../../adapters/source/watch.ts';
import type { Problem } from '../../model/problem.ts';
import type { Result } from '../../model/result.ts';
import type { Source } from '../../ports.ts';
import { Failure, makeFailure, type Settings } from '../command.ts';
import { readPathOperand } from '../path-operand.ts';
import { readLimits } from '../plan-settings.ts';
import type { DirectoryWake, OpenSource, WakeSettings } from './invocation.ts';

/** The source that the settings name; throws a `Failure` when it cannot work. */
export const openSource: OpenSource = async (context, stateFolder, references) => {
  const { settings, terminal, operands } = context;
  if (settings.gitUrl === null) {
    const { path: root } = readPathOperand({ ...context, settings }, 'watch');
    const source = createDirectorySource(root, readLimits(settings));
    return { source, root, follow: (wake) => wakeOnChange(root, source, wake), forget: () => undefined };
  }
  if (operands.length > 0)
    throw makeFailure(
      'usage',
      'a PATH and --git-url exclude each other',
      'name the directory inside the repository with --git-path',
    );
  const { GitSource } = await import('../../adapters/source/git.ts');
  const own = { stateFolder: path.join(stateFolder, 'git'), environment: terminal.env, references };
  const source = new GitSource(readGitSettings(settings, settings.gitUrl, own));
  return { source, root: null, follow: () => null, forget: () => source.forget() };
};

/** The Git source's settings, every text of them checked; throws a `Failure` with all problems. */
function readGitSettings(
  settings: Settings,
  url: string,
  context: Pick<GitSettings, 'stateFolder' | 'environment' | 'references'>,
): GitSettings {
  const problems: Problem[] = [];
  const insecure = settings.gitAllow.filter((one): one is 'http' | 'file' => one === 'http' || one === 'file');
  if (insecure.length < settings.gitAllow.length) problems.push(wrong('--git-allow takes http or file'));
  const remote = checked(parseRemote(url, insecure), problems);
  const target = checked(parseRef(settings.gitRef), problems);
  const parts = checked(parseGitPath(settings.gitPath), problems);
  if (remote?.protocol === 'ssh' && settings.gitKnownHosts === null) {
    problems.push(wrong('for ssh the server’s key must be known: give --git-known-hosts'));
  }
  if (remote === null || target === null || parts === null || problems.length > 0) throw new Failure(problems);
  const { gitVerifyOpenpgp, gitVerifySsh } = settings;
  const verify =
    gitVerifyOpenpgp === null && gitVerifySsh === null
      ? null
      : { ...given('openpgpFile', gitVerifyOpenpgp), ...given('sshFile', gitVerifySsh) };
  return {
    remote,
    target,
    path: parts,
    access: {
      username: settings.gitUsername,
      ...given('tokenFile', settings.gitTokenFile),
      ...given('sshKeyFile', settings.gitSshKey),
      ...given('knownHostsFile', settings.gitKnownHosts),
      ...given('caFile', settings.gitCaFile),
    },
    verify,
    limits: readLimits(settings),
    timeoutMs: settings.gitTimeout,
    ...context,
  };
}

function given<K extends string>(name: K, value: string | null): Partial<Record<K, string>> {
  return value === null ? {} : ({ [name]: value } as Partial<Record<K, string>>);
}

function checked<T>(result: Result<T, string>, problems: Problem[]): T | null {
  if (result.ok) return result.value;
  problems.push(wrong(result.error));
  return null;
}

function wrong(summary: string): Problem {
  return { code: 'bad-setting', severity: 'error', summary };
}

// Editors and `cp -r` make bursts: one look for all of it.
const burstMs = 20;
// Without events this is all there is.
const degradedRescanMs = 2000;

/** Starts watching and rescanning `root`. */
export function wakeOnChange(root: string, source: Source, settings: WakeSettings): DirectoryWake {
  const { rescanMs, logger, wake, open } = settings;
  const stop = new AbortController();
  let burst: NodeJS.Timeout | null = null;
  const watch = watchDirectory({
    root,
    logger,
    ...(open === undefined ? {} : { open }),
    onEvent: () => {
      burst ??= setTimeout(() => {
        burst = null;
        wake();
      }, burstMs);
    },
  });
  let seen: string | null = null;
  const scanning = (async () => {
    while (!stop.signal.aborted) {
      await systemClock.sleep(watch.degraded() ? Math.min(rescanMs, degradedRescanMs) : rescanMs, stop.signal);
      if (stop.signal.aborted) return;
      watch.refresh();
      const reading = await source.read(stop.signal).catch(() => null);
      if (reading === null) continue; // stopped while reading
      const now = reading.content?.revision ?? reading.problems.map((one) => one.code).join(' ');
      if (seen !== null && now !== seen) wake();
      seen = now;
    }
  })();
  return {
    degraded: () => watch.degraded(),
    async close() {
      stop.abort();
      if (burst !== null) clearTimeout(burst);
      await Promise.all([watch.close(), scanning]);
    },
  };
}
