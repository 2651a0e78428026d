import path from 'node:path';
import { createDirectorySource } from '../../adapters/source/directory.ts';
import type { GitSettings } from '../../adapters/source/git.ts';
import { makeFailure } from '../failure.ts';
import { readPathOperand } from '../path-operand.ts';
import { readLimits } from '../plan-settings.ts';
import { wakeOnChange } from './directory.ts';
import { readGitSettings } from './git-settings.ts';
import type { WatchContext, WatchedSource } from './invocation.ts';

/** The source that the settings name; throws a `Failure` when it cannot work. */
export async function openSource(
  context: WatchContext,
  stateFolder: string,
  references: GitSettings['references'],
): Promise<WatchedSource> {
  const { settings, terminal, operands } = context;
  if (settings.gitUrl === null) {
    const { path: root } = readPathOperand({ ...context, settings }, '');
    const source = createDirectorySource(root, readLimits(settings));
    return { source, root, follow: (wake) => wakeOnChange(root, source, wake), forget: () => undefined };
  }
  if (operands.length > 0)
    throw makeFailure(
      'usage',
      'a PATH and --git-url exclude each other',
      'name the directory inside the repository with --git-path',
    );
  const { openGitSource } = await import('../../adapters/source/git.ts');
  const own = { stateFolder: path.join(stateFolder, 'git'), environment: terminal.env, references };
  const source = openGitSource(readGitSettings(settings, settings.gitUrl, own));
  return { source, root: null, follow: () => null, forget: () => source.forget() };
}
