import { realpathSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { isBelow, resolveLinks } from '../adapters/secrets.ts';
import { readOperatorFile } from '../adapters/source/regular-file.ts';
import { findWorkTree, listRepositories } from '../adapters/source/work-tree.ts';
import { decodeText } from '../manifest/read-manifests.ts';
import { readValues } from '../manifest/values-file.ts';
import { makeNote, makeWarning, type Problem } from '../model/problem.ts';
import { exitCodes, Failure, makeFailure, type Settings } from './command.ts';
import { readNamedFile } from './read-file.ts';

/** The values for `${name}`; null where no file says any. */
type GivenValues = ReadonlyMap<string, string> | null;
/** A values file on one side of a comparison: null where it is not there, undefined where nothing says which file it is there. */
export type FoundFile = Buffer | null | undefined;

const largest = 1_000_000;

/** The values of every `--values` file as it is now, later files over earlier ones. Throws a `Failure` for one that cannot be used. */
export function readGivenValues({ values }: Settings): GivenValues {
  return merge(values.map(readNow));
}

/** The values of one side of a comparison from its files, and what is to be said of those that are not there or not that side's. */
export function readSideValues({ values }: Settings, path: string, side: string, found: readonly FoundFile[]) {
  const problems: Problem[] = [];
  const read = values.flatMap((file, index) => {
    const bytes = found[index];
    if (bytes === undefined) {
      problems.push(tellSame(path, file));
      return readNow(file);
    }
    try {
      if (bytes !== null) return decode(file, bytes);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
    }
    const summary = `${side} has no values file ${file} that can be read: its manifests are built without it`;
    problems.push(makeWarning('bad-values', summary, 'a values file is read as each side has it'));
    return [];
  });
  return { values: merge(read), problems };
}

/** The values file that stands for this one of PATH: at the same place as seen from `folder`, in a folder or in a checkout around it. */
export function readBeside(path: string, folder: string, file: string): FoundFile {
  const there = resolve(folder, relative(path, file));
  const isInside = isBelow(path, file);
  if (there === file || !(isInside || isBelow(findWorkTree(path)?.root ?? path, file))) return undefined;
  try {
    checkLinks(there);
    return readOperatorFile(there, largest);
  } catch {
    return isInside ? null : undefined;
  }
}

/** Throws where a link leads out of a repository that the file lies in, or into Git's files: a pull request could show what is there. */
function checkLinks(file: string): void {
  const real = resolveLinks(file);
  const roots = real === null ? [] : listRepositories(dirname(file)).map((root) => realpathSync(root));
  if (roots.every((root) => isBelow(root, real ?? '') && !isBelow(join(root, '.git'), real ?? ''))) return;
  const summary = `the values file ${file} lies behind a link out of the repository, and is not read`;
  throw makeFailure('bad-values', summary, 'commit the file itself, or a link that stays in the repository');
}

/** That a values file cannot be read as each side has it: a note where no change of the repository can touch it. */
export function tellSame(path: string, file: string): Problem {
  const tree = findWorkTree(path);
  const make = tree === null || isBelow(tree.root, file) ? makeWarning : makeNote;
  const hint = 'what changed in it is not seen: keep it in the repository, or below the folder that is compared';
  return make('same-values', `All that is compared is built with the values file ${file} as it is now`, hint);
}

function merge(read: readonly ReadonlyMap<string, string>[]): GivenValues {
  return read.length === 0 ? null : new Map(read.flatMap((one) => [...one]));
}

function readNow(path: string): ReadonlyMap<string, string> {
  checkLinks(path);
  const name = `the values file ${path}`;
  return decode(path, readNamedFile({ path, code: 'bad-values', name, largest, hint: 'check --values' }));
}

function decode(path: string, bytes: Buffer): ReadonlyMap<string, string> {
  const text = decodeText(bytes);
  if (text === null) throw makeFailure('bad-values', `the values file ${path} is not UTF-8 text`, 'save it as UTF-8');
  const { values, problems } = readValues(path, text.replace(/^\uFEFF/, ''));
  if (values === null) throw new Failure(problems, exitCodes.invalid);
  return values;
}
