import { appendFileSync, constants } from 'node:fs';
import { open, rename, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { attempt, replaceError } from '../model/result.ts';
import { shareRuns } from '../model/share-runs.ts';
import type { JournalEntry } from '../ports.ts';
import { makeFolder } from './replace-file.ts';

/** From this size on a journal is set aside as `PATH.1`, replacing an older one, as soon as a pass has ended. */
const largestBytes = 16 * 1024 * 1024;
/** As much of its end is read as one pass can have written. */
const tailBytes = 4 * 1024 * 1024;

/** The end of a file; empty when there is none. */
async function readEnd(path: string): Promise<string> {
  const file = await open(path, 'r').catch(replaceError('ENOENT', null));
  if (file === null) return '';
  try {
    const { size } = await file.stat();
    const length = Math.min(size, tailBytes);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, size - length);
    return buffer.toString('utf8', 0, bytesRead);
  } finally {
    await file.close();
  }
}

/** Whether this is a pipe; rejects where nobody reads it, since opening it to write would wait for ever. */
async function isPipe(path: string): Promise<boolean> {
  if ((await stat(path).catch(() => null))?.isFIFO() !== true) return false;
  await (await open(path, constants.O_WRONLY | constants.O_NONBLOCK)).close();
  return true;
}

/**
 * Appends JSON lines (mode 0600), each with the time. A line outlives a kill of this process once `write` returns; the end of a write
 * outside gaps, once this turn of the event loop ends. A line of a gap is on disk once its promise resolves, others when the pass ends.
 */
export async function openJournal(path: string, wallTime: () => number) {
  await makeFolder(dirname(path));
  const pipe = await isPipe(path);
  const earlier = pipe ? '' : await readEnd(path);
  let file = await open(path, 'a', 0o600);
  // What a kill or a full disk cut must not take the next line with it.
  let isCut = earlier !== '' && !earlier.endsWith('\n');
  /** Ends of writes outside gaps: mostly the next write's line goes with them, in one call of the system. */
  let ends = '';
  const append = (line: string): void => {
    const text = `${isCut ? '\n' : ''}${ends}${line}`;
    isCut = true;
    appendFileSync(file.fd, text);
    [ends, isCut] = ['', false];
  };
  // Ends that cannot be written go with the line that follows, which says whether the file can be.
  const flush = (): void => attempt(() => (ends === '' ? undefined : append('')), undefined);
  const setAside = async (): Promise<void> => {
    const old = file;
    const stat = await old.stat();
    if (!stat.isFile() || stat.size < largestBytes) return;
    await rename(path, `${path}.1`);
    file = await open(path, 'a', 0o600);
    await old.close();
  };
  const sync = shareRuns(() => file.datasync());
  let last: Promise<unknown> = Promise.resolve();
  return {
    path,
    /** What an earlier run wrote last; cut lines are for the reader to pass over. */
    earlier,
    write: async (entry: JournalEntry): Promise<void> => {
      const line = `${JSON.stringify({ at: new Date(wallTime()).toISOString(), ...entry })}\n`;
      const inGap = entry.gap !== undefined;
      if (!pipe && entry.event === 'step-ended' && !inGap) {
        if (ends === '') setImmediate(flush);
        ends += line;
        return;
      }
      if (!pipe) append(line);
      // The sync of a later line holds this one too, at the latest that of the end of the pass.
      if (!pipe && entry.event === 'step-started' && !inGap) return;
      const written = pipe ? last.then(() => file.appendFile(line)) : sync();
      // Within a pass a gap may be open, and the next start looks for it in this file.
      const done = entry.event === 'pass-ended' ? written.then(setAside) : written;
      last = done.catch(() => undefined);
      await done;
    },
    close: async (): Promise<void> => {
      await last;
      flush();
      await file.close();
    },
  };
}
