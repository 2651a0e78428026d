import { lstatSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createDirectorySource } from '../adapters/source/directory.ts';
import { readRegularFile } from '../adapters/source/regular-file.ts';
import { exitCodes, Failure, type Invocation, makeFailure } from './command.ts';
import { readLimits } from './plan-settings.ts';

/** A manifest file as it is: `shown` as the person named it. */
export interface NamedManifest {
  readonly shown: string;
  readonly path: string;
  readonly bytes: Uint8Array;
}

/** The manifests at a path: one file, or all below a directory; `-`: one on stdin. */
export async function readManifestFiles(
  { settings, terminal }: Invocation,
  written: string,
): Promise<readonly NamedManifest[]> {
  if (written === '-' && terminal.readStdin !== undefined) {
    const bytes = await terminal.readStdin(readLimits(settings).fileBytes);
    if (bytes === null) throw makeFailure('unreadable-file', 'stdin is larger than a manifest may be');
    return [{ shown: '-', path: '-', bytes }];
  }
  const path = resolve(terminal.cwd, written);
  const status = lstatSync(path, { throwIfNoEntry: false });
  if (status === undefined) throw makeFailure('no-path', `${written} does not exist`);
  if (status.isSymbolicLink() && statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) {
    // Somebody else may have made it, to have another file written.
    throw makeFailure('unreadable-file', `${written} is a link, which is not written through`, 'name the file itself');
  }
  if (status.isFile()) {
    const bytes = await readRegularFile(path, readLimits(settings).fileBytes);
    if (!bytes.ok) throw makeFailure('unreadable-file', `${written} cannot be read: ${bytes.error}`);
    return [{ shown: written, path, bytes: bytes.value }];
  }
  const reading = await createDirectorySource(path, readLimits(settings)).read(terminal.stop);
  if (reading.content === null) throw new Failure(reading.problems, exitCodes.invalid);
  return reading.content.files.map((file) => ({
    shown: join(written, file.path),
    path: join(path, file.path),
    bytes: file.bytes,
  }));
}
