import { existsSync, lstatSync, realpathSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';

/** Where a file lies in the work tree that holds a directory, by the names that lead to it; null elsewhere, and in a repository inside. */
export function findInWorkTree(directory: string, file: string): readonly string[] | null {
  for (let top = dirname(file); ; top = dirname(top)) {
    if (lstatSync(join(top, '.git'), { throwIfNoEntry: false }) !== undefined)
      return realpathSync(top) === findWorkTree(directory)?.root ? relative(top, file).split(sep) : null;
    if (top === dirname(top)) return null;
  }
}

/** The work tree that holds a directory, by an entry `.git`, a name that Git refuses to track, and where it lies there; null without one. */
export function findWorkTree(directory: string) {
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
