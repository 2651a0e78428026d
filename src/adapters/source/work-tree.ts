import { existsSync, lstatSync, realpathSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';

/** A work tree's repository, and where a directory lies in it. */
export interface WorkTree {
  readonly gitDir: string;
  readonly root: string;
  readonly path: readonly string[];
}

/** The work tree that holds a directory, by an entry `.git`, a name that Git refuses to track; null without one. */
export function findWorkTree(directory: string): WorkTree | null {
  if (!existsSync(directory)) return null;
  const real = realpathSync(directory);
  for (let folder = real; ; folder = dirname(folder)) {
    const gitDir = join(folder, '.git');
    if (lstatSync(gitDir, { throwIfNoEntry: false }) !== undefined) {
      return { gitDir, root: folder, path: relative(folder, real).split(sep).filter(Boolean) };
    }
    if (folder === dirname(folder)) return null;
  }
}
