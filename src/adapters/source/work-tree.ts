import { existsSync, lstatSync, realpathSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';

/** The folder and those above it that hold an entry `.git`, a name that Git refuses to track; by their names, the innermost first. */
export function listRepositories(folder: string): readonly string[] {
  const above = folder === dirname(folder) ? [] : listRepositories(dirname(folder));
  return lstatSync(join(folder, '.git'), { throwIfNoEntry: false }) === undefined ? above : [folder, ...above];
}

/** Where a file lies in the work tree that holds a directory, by the names that lead to it; null elsewhere, and in a repository inside. */
export function findInWorkTree(directory: string, file: string): readonly string[] | null {
  const [top] = listRepositories(dirname(file));
  const isSame = top !== undefined && realpathSync(top) === findWorkTree(directory)?.root;
  return isSame ? relative(top, file).split(sep) : null;
}

/** The work tree that holds a directory, and where it lies there; null without one. A link on the way may differ in other commits. */
export function findWorkTree(directory: string) {
  if (!existsSync(directory)) return null;
  const real = realpathSync(directory);
  const [root] = listRepositories(real);
  if (root === undefined) return null;
  const path = relative(root, real);
  const [named] = listRepositories(resolve(directory));
  const isLink = named !== undefined && (realpathSync(named) !== root || relative(named, resolve(directory)) !== path);
  return { gitDir: join(root, '.git'), root, path: path.split(sep).filter(Boolean), isLink };
}
