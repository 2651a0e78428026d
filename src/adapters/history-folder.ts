import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { getErrorCode } from '../model/result.ts';
import { replaceFile } from './replace-file.ts';

/** Records that are kept; older ones are removed as new ones are written. */
const mostRecords = 50;
const largestBytes = 50_000_000;

/** Numbers of the records in a folder, the newest first; none where there is no folder. */
export async function listRecords(folder: string): Promise<readonly number[]> {
  const names = await readdir(folder).catch((error: unknown) => {
    if (getErrorCode(error) === 'ENOENT') return [];
    throw error;
  });
  return names
    .flatMap((name) => /^(\d{1,9})\.json$/.exec(name)?.[1] ?? [])
    .map(Number)
    .sort((a, b) => b - a);
}

/** The JSON value of a record; undefined where it is absent, too large, or cut off by a kill. */
export async function readRecord(folder: string, number: number): Promise<unknown> {
  const file = path.join(folder, `${number}.json`);
  try {
    return (await stat(file)).size > largestBytes ? undefined : JSON.parse(await readFile(file, 'utf8'));
  } catch {
    return undefined;
  }
}

/** Adds a record with the next number, mode 0600, and removes what is older than the last 50. Returns its number. */
export async function addRecord(folder: string, value: unknown): Promise<number> {
  const text = `${JSON.stringify(value)}\n`;
  const known = await listRecords(folder);
  for (let number = (known[0] ?? 0) + 1; ; number++) {
    try {
      // Another process may take the same number at this moment.
      await writeFile(path.join(folder, `${number}.json`), text, { mode: 0o600, flag: 'wx' });
      await removeRecords(folder, known.slice(mostRecords - 1));
      return number;
    } catch (error) {
      if (getErrorCode(error) !== 'EEXIST') throw error;
    }
  }
}

/** Replaces a record in one step that readers see whole. */
export async function replaceRecord(folder: string, number: number, value: unknown): Promise<void> {
  await replaceFile(path.join(folder, `${number}.json`), `${JSON.stringify(value)}\n`, 0o600);
}

/** Removes records by their numbers. */
export async function removeRecords(folder: string, numbers: readonly number[]): Promise<void> {
  for (const number of numbers) await rm(path.join(folder, `${number}.json`), { force: true });
}
