import { type FileHandle, mkdir, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Journal, JournalEntry } from '../ports.ts';

/** A journal in a file, and the way to close it. */
export interface FileJournal extends Journal {
  close(): Promise<void>;
}

interface Waiting {
  readonly line: string;
  resolve(): void;
  reject(error: unknown): void;
}

/**
 * Appends to a file of JSON lines (made with mode 0600), each with the time. A write is over when it is on disk; entries
 * that arrive during one sync share the next.
 */
export async function openJournal(path: string, wallTime: () => number): Promise<FileJournal> {
  await mkdir(dirname(path), { recursive: true });
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
        const line = `${JSON.stringify({ at: new Date(wallTime()).toISOString(), ...entry })}\n`;
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
