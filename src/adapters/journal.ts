import { type FileHandle, open, rename, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { getErrorCode } from '../model/result.ts';
import type { Journal, JournalEntry } from '../ports.ts';
import { makeFolder } from './make-folder.ts';

/** A journal in a file, and the way to close it. */
export interface FileJournal extends Journal {
  close(): Promise<void>;
}

interface Waiting {
  readonly line: string;
  resolve(): void;
  reject(error: unknown): void;
}

/** From this size on a journal is set aside as `PATH.1` when it is opened. */
const largestBytes = 16 * 1024 * 1024;
/** As much of its end is read as one pass can have written. */
const tailBytes = 4 * 1024 * 1024;

/** The end of a journal; empty when there is none. Lines that are cut are for the reader to pass over. */
export async function readJournal(path: string): Promise<string> {
  const size = await sizeOf(path);
  if (size === 0) return '';
  const file = await open(path, 'r');
  try {
    const length = Math.min(size, tailBytes);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, size - length);
    return buffer.toString('utf8', 0, bytesRead);
  } finally {
    await file.close();
  }
}

/** Whether the file ends in the middle of a line, as far as can be seen. */
async function endsInLine(path: string): Promise<boolean> {
  return readJournal(path).then(
    (end) => end !== '' && !end.endsWith('\n'),
    () => true,
  );
}

/** 0 for a file that is not there. */
async function sizeOf(path: string): Promise<number> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if (getErrorCode(error) === 'ENOENT') return 0;
    throw error;
  }
}

/**
 * Appends to a file of JSON lines (made with mode 0600), each with the time. A write is over when it is on disk; entries
 * that arrive during one sync share the next.
 */
export async function openJournal(path: string, wallTime: () => number): Promise<FileJournal> {
  await makeFolder(dirname(path));
  if ((await sizeOf(path)) > largestBytes) await rename(path, `${path}.1`);
  // What a kill or a full disk cut must not take the first new line with it.
  let lead = (await endsInLine(path)) ? '\n' : '';
  const file = await open(path, 'a', 0o600);
  let waiting: Waiting[] = [];
  let flushing: Promise<void> | null = null;
  const flush = async (): Promise<void> => {
    while (waiting.length > 0) {
      const batch = waiting;
      waiting = [];
      await writeBatch(file, batch);
    }
    flushing = null;
  };
  return {
    write: (entry: JournalEntry) =>
      new Promise<void>((resolve, reject) => {
        const line = `${lead}${JSON.stringify({ at: new Date(wallTime()).toISOString(), ...entry })}\n`;
        lead = '';
        waiting.push({ line, resolve, reject });
        flushing ??= flush();
      }),
    close: async () => {
      await flushing;
      await file.close();
    },
  };
}

async function writeBatch(file: FileHandle, batch: readonly Waiting[]): Promise<void> {
  try {
    await file.appendFile(batch.map(({ line }) => line).join(''));
    await file.datasync();
    for (const one of batch) one.resolve();
  } catch (error) {
    for (const one of batch) one.reject(error);
  }
}
