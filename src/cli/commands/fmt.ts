import { lstatSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { replaceFile } from '../../adapters/replace-file.ts';
import { directorySource } from '../../adapters/source/directory.ts';
import { readRegularFile } from '../../adapters/source/regular-file.ts';
import { formatBytes } from '../../manifest/format.ts';
import type { Problem } from '../../model/problem.ts';
import { fileText, problemsText } from '../../report/problems.ts';
import { count } from '../../report/summary.ts';
import type { Answer, Invocation } from '../command.ts';
import { exitCodeOf, exitCodes } from '../exit-code.ts';
import { Failure, failure } from '../failure.ts';
import { pathOperand } from '../path-operand.ts';
import { limitsOf, profileOf } from '../plan-settings.ts';

/** A manifest file as it is: `shown` as the person named it. */
interface Manifest {
  readonly shown: string;
  readonly path: string;
  readonly bytes: Uint8Array;
}

/**
 * `reconcile fmt PATH…`: canonical spelling and order, in place; `--check` only says which files would change, and exits 1
 * when there are any, or a network with host bits: what that means is not for a formatter to decide. Files with errors are left
 * alone (exit 4).
 */
export async function run(invocation: Invocation): Promise<Answer> {
  const { settings } = invocation;
  pathOperand(invocation, 'fmt');
  const files = (await Promise.all(invocation.operands.map((written) => filesAt(invocation, written)))).flat();
  const problems: Problem[] = [];
  const left: Problem[] = [];
  const changed: string[] = [];
  for (const { shown, path, bytes } of files) {
    const formatted = formatBytes(shown, bytes, profileOf(settings));
    for (const problem of formatted.problems) problems.push(problem);
    for (const problem of formatted.left) left.push(problem);
    if (formatted.text === null || formatted.text === formatted.before) continue;
    changed.push(shown);
    if (!settings.check) await replaceFile(path, formatted.text);
  }
  const verb = settings.check ? 'would change' : 'changed';
  return {
    exit: exitCodeOf({ invalid: problems.length > 0, failed: settings.check && changed.length + left.length > 0 }),
    text: () => changed.map((path) => `${fileText(path)}\n`).join(''),
    notes: (color) =>
      `${problemsText([...problems, ...left], color)}${count(files.length, 'file')}, ${changed.length} ${verb}.\n`,
  };
}

/** The manifests at a path: one file, or all below a directory. */
async function filesAt({ settings, terminal }: Invocation, written: string): Promise<readonly Manifest[]> {
  const path = resolve(terminal.cwd, written);
  const status = lstatSync(path, { throwIfNoEntry: false });
  if (status === undefined) throw failure('no-path', `${written} does not exist`);
  if (status.isSymbolicLink() && statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) {
    // Somebody else may have made it, to have another file written.
    throw failure('unreadable-file', `${written} is a link, which is not written through`, 'name the file itself');
  }
  if (status.isFile()) {
    const bytes = await readRegularFile(path, limitsOf(settings).fileBytes);
    if (!bytes.ok) throw failure('unreadable-file', `${written} cannot be read: ${bytes.error}`);
    return [{ shown: written, path, bytes: bytes.value }];
  }
  const reading = await directorySource(path, limitsOf(settings)).read(terminal.stop);
  if (reading.content === null) throw new Failure(reading.problems, exitCodes.invalid);
  return reading.content.files.map((file) => ({
    shown: join(written, file.path),
    path: join(path, file.path),
    bytes: file.bytes,
  }));
}
