import { writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { makeFolder, replaceFile } from '../adapters/replace-file.ts';
import { readOperatorFile } from '../adapters/source/regular-file.ts';
import type { ProblemCode } from '../model/problem-code.ts';
import { getErrorCode } from '../model/result.ts';
import { type Failure, makeFailure } from './command.ts';

/** A file that an option or operand names, and how messages speak of it. */
export interface NamedFile {
  readonly path: string;
  readonly code: ProblemCode;
  /** `the values file a.yaml` */
  readonly name: string;
  /** bytes */
  readonly largest: number;
  readonly hint: string;
}

/** Reads the file; throws a `Failure` where it cannot be read or is too large. */
export function readNamedFile({ path, code, name, largest, hint }: NamedFile): Buffer {
  try {
    return readOperatorFile(path, largest);
  } catch (error) {
    const reason = getErrorCode(error);
    if (reason === 'EFBIG') throw makeFailure(code, `${name} is larger than ${largest} bytes`, hint);
    throw makeFailure(code, `${name} cannot be read (${reason})`, hint);
  }
}

/** Writes the file that `option` names; throws a `Failure` where that cannot be done. */
export function writeNamedFile(path: string, text: string, option: string): void {
  try {
    writeFileSync(path, text);
  } catch (error) {
    throw explainUnwritable(path, getErrorCode(error), option);
  }
}

/** Replaces a file that `option` names, or that lies below the folder it names; throws a `Failure` where that cannot be done. */
export async function replaceNamed(path: string, text: string, option: string): Promise<void> {
  try {
    await makeFolder(dirname(path));
    // SAML metadata is treated as a secret everywhere else, so here too.
    await replaceFile(path, text, /\.(?:ya?ml|json|md)$/.test(path) ? 0o644 : 0o600);
  } catch (error) {
    throw explainUnwritable(path, getErrorCode(error), option);
  }
}

const whyUnwritable: Readonly<Record<string, string>> = {
  ENOENT: ': its directory is not there',
  EISDIR: ': it is a directory',
  ENOTDIR: ': a file stands where a directory should be',
  ENOSPC: ': the disk is full',
  EROFS: ': the disk is read-only',
  EEXIST: ': a file stands where a directory should be',
};

/** What to do about a file that `option` names and that cannot be written. */
export function explainUnwritable(path: string, code: string, option: string): Failure {
  return makeFailure('output', `${path} cannot be written (${code})`, `check ${option}${whyUnwritable[code] ?? ''}`);
}
