import { existsSync, statSync } from 'node:fs';
import { link, readFile, rename, stat, unlink } from 'node:fs/promises';
import path from 'node:path';
import { getErrorCode } from '../model/result.ts';
import { replaceFile } from './replace-file.ts';
import { claimFolder, closeToOthers, isAlive, markProcess } from './state-folder.ts';

/**
 * The apply of a state folder that nobody has confirmed yet. Where its record lies says what becomes of it: removing `pending` keeps
 * the apply, renaming it to `going-back` takes it back. Both are one step of the file system, and only one of the two can succeed.
 */
export type PendingPlace = 'pending' | 'going-back';

const largestBytes = 50_000_000;

function fileOf(folder: string, name: PendingPlace | 'owner'): string {
  return path.join(folder, 'oneshot', name === 'owner' ? 'pending.owner' : `${name}.json`);
}

/** Writes the first record of an apply; false: that of another process, which began at the same time, lies there. */
export async function beginPending(folder: string, value: unknown): Promise<boolean> {
  for (const one of [folder, path.join(folder, 'oneshot')]) await claimFolder(one);
  if (existsSync(fileOf(folder, 'going-back'))) return false;
  const draft = path.join(folder, 'oneshot', `.pending.${process.pid}`);
  await replaceFile(draft, textOf(value), 0o600);
  try {
    // Unlike a rename, this never takes the place of what is there.
    await link(draft, fileOf(folder, 'pending'));
  } catch (error) {
    if (getErrorCode(error) === 'EEXIST') return false;
    throw error;
  } finally {
    await unlink(draft);
  }
  await ownPending(folder);
  return true;
}

/** Writes the record, for its owner alone, and says that this process sees to it. Throws what the file system throws. */
export async function writePending(folder: string, value: unknown): Promise<void> {
  await ownPending(folder);
  await replaceFile(fileOf(folder, 'pending'), textOf(value), 0o600);
}

function textOf(value: unknown): string {
  return `${JSON.stringify(value)}\n`;
}

/** Says that this process sees to the record. */
export async function ownPending(folder: string): Promise<void> {
  for (const one of [folder, path.join(folder, 'oneshot')]) await claimFolder(one);
  await replaceFile(fileOf(folder, 'owner'), markProcess(), 0o600);
}

/** The number of the process that sees to the record, where that one is alive and not this one. */
export async function findPendingOwner(folder: string): Promise<number | null> {
  const mark = await readFile(fileOf(folder, 'owner'), 'utf8').catch(() => '');
  return mark !== markProcess() && isAlive(mark) ? Number(mark.split(' ')[0]) : null;
}

/** The JSON value of the record; undefined: there is none; null: it cannot be read. */
export async function readPending(folder: string, place: PendingPlace): Promise<unknown> {
  const file = fileOf(folder, place);
  if (!existsSync(file)) return undefined;
  try {
    // What it says is done: it must not be another user's.
    for (const one of [folder, path.dirname(file)]) await closeToOthers(one);
    return (await stat(file)).size > largestBytes ? null : JSON.parse(await readFile(file, 'utf8'));
  } catch (error) {
    return getErrorCode(error) === 'ENOENT' ? undefined : null;
  }
}

/** Whether the apply still waits. A state folder that is gone, or cannot be read, confirms nothing. */
export function isPending(folder: string): boolean {
  try {
    statSync(fileOf(folder, 'pending'));
    return true;
  } catch (error) {
    return !isRemoved(folder, error);
  }
}

/** Removes the record; false: it was gone already. */
export async function removePending(folder: string, place: PendingPlace): Promise<boolean> {
  try {
    // Not `rm`, which takes a file that was renamed at the same moment for one that it removed.
    await unlink(fileOf(folder, place));
    return true;
  } catch (error) {
    if (getErrorCode(error) === 'ENOENT') return false;
    throw error;
  }
}

/** Decides that the apply is taken back; false: it was kept already. */
export async function claimGoingBack(folder: string): Promise<boolean> {
  return await rename(fileOf(folder, 'pending'), fileOf(folder, 'going-back')).then(
    () => true,
    (error: unknown) => !isRemoved(folder, error),
  );
}

/** Whether an error says that the record alone was taken away. */
function isRemoved(folder: string, error: unknown): boolean {
  return getErrorCode(error) === 'ENOENT' && existsSync(path.join(folder, 'oneshot'));
}
