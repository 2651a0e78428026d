import path from 'node:path';
import { createDirectorySource } from '../../adapters/source/directory.ts';
import { parseGitPath, parseRef, parseRemote } from '../../adapters/source/git-address.ts';
import { wakeOnChange } from '../../adapters/source/watch.ts';
import { Failure, makeFailure, type Settings } from '../command.ts';
import { formatFlag, listGroup } from '../options.ts';
import { readPathOperand } from '../path-operand.ts';
import { readLimits } from '../plan-settings.ts';
import type { OpenSource } from './invocation.ts';

/** The source that the settings name; throws a `Failure` when it cannot work. */
export const openSource: OpenSource = async (context, stateFolder, references) => {
  const { settings, terminal, operands } = context;
  if (settings.gitUrl === null) {
    const ofGit = listGroup('watch').find((name) => name.startsWith('git') && settings.origins.has(name));
    const hint = 'name the repository with --git-url, or leave it out: a directory has no commits';
    if (ofGit !== undefined) throw makeFailure('usage', `${formatFlag(ofGit)} goes with --git-url only`, hint);
    const { path: root } = readPathOperand({ ...context, settings }, 'watch');
    const source = createDirectorySource(root, readLimits(settings));
    return { source, root, follow: (wake) => wakeOnChange(root, source, wake), forget: () => undefined };
  }
  if (operands.length > 0) {
    const hint = 'name the directory inside the repository with --git-path';
    throw makeFailure('usage', 'a PATH and --git-url exclude each other', hint);
  }
  const { GitSource } = await import('../../adapters/source/git.ts');
  const own = { stateFolder: path.join(stateFolder, 'git'), environment: terminal.env, references };
  const source = new GitSource({ ...readGitSettings(settings, settings.gitUrl), ...own });
  return { source, root: null, follow: () => null, forget: () => source.forget() };
};

/** The Git source's settings, every text of them checked; throws a `Failure` with all problems. */
function readGitSettings(settings: Settings, url: string) {
  const remote = parseRemote(url, settings.gitAllow);
  const target = parseRef(settings.gitRef);
  const parts = parseGitPath(settings.gitPath);
  const wrong = [remote, target, parts].flatMap((one) => (one.ok ? [] : one.error));
  if (remote.ok && remote.value.protocol === 'ssh' && settings.gitKnownHosts === null)
    wrong.push('for ssh the server’s key must be known: give --git-known-hosts');
  if (!remote.ok || !target.ok || !parts.ok || wrong.length > 0)
    throw new Failure(wrong.map((summary) => ({ code: 'bad-setting', severity: 'error', summary })));
  const checked = { remote: remote.value, target: target.value, path: parts.value };
  return { ...checked, access: settings, limits: readLimits(settings), timeoutMs: settings.gitTimeout };
}
