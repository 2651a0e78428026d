import { type BigIntStats, closeSync, constants, fstatSync, openSync, readFileSync, readSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { fail, getErrorCode, ok, type Result, replaceError } from '../../model/result.ts';

/** Reads a regular file of at most `maxBytes` by a resolved path, without blocking; the error is part of a sentence. */
export async function readRegularFile(path: string, maxBytes: number): Promise<Result<Uint8Array, string>> {
  let handle: FileHandle | undefined;
  try {
    handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW | constants.O_NOCTTY);
    const stats = await handle.stat({ bigint: true });
    if (!stats.isFile()) return fail(`it is ${getFileKind(stats)}, not a regular file`);
    if (stats.size > BigInt(maxBytes))
      return fail(`it has ${stats.size} bytes, more than the ${maxBytes} allowed (limits.fileBytes)`);
    return await readWhole(handle, Number(stats.size));
  } catch (error) {
    return fail(explainReason(error));
  } finally {
    await handle?.close();
  }
}

/** Of an operator's file that is not read; the code stands in the message. */
function makeUnfit(code: string): Error {
  return Object.assign(new Error(code), { code });
}

const silentMs = 10_000;
const pauseMs = 20;

/** Reads a regular file, or a pipe such as `<(command)` whose writer is silent for ten seconds at most. Throws errors with a `code`. */
export function readOperatorFile(path: string, largest: number): Buffer {
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  try {
    const stats = fstatSync(descriptor);
    if (stats.isFIFO()) return readPipe(descriptor, largest);
    if (!stats.isFile()) throw makeUnfit(stats.isDirectory() ? 'EISDIR' : 'not a file');
    if (stats.size > largest) throw makeUnfit('EFBIG');
    return readFileSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

function readPipe(descriptor: number, largest: number): Buffer {
  const read: Buffer[] = [];
  let [size, silent] = [0, 0];
  for (;;) {
    const chunk = readIfReady(descriptor);
    if (chunk === null) {
      silent += pauseMs;
      if (silent > silentMs) throw makeUnfit('nothing came for ten seconds');
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, pauseMs);
      continue;
    }
    // An empty file may be meant; a FIFO that nobody writes to is not.
    if (chunk.length === 0 && size === 0) throw makeUnfit('an empty pipe');
    if (chunk.length === 0) return Buffer.concat(read);
    silent = 0;
    size += chunk.length;
    if (size > largest) throw makeUnfit('EFBIG');
    read.push(chunk);
  }
}

/** What there is to read; null: nothing yet; empty: the end. */
function readIfReady(descriptor: number): Buffer | null {
  const chunk = Buffer.alloc(65_536);
  try {
    return chunk.subarray(0, readSync(descriptor, chunk));
  } catch (error) {
    return replaceError('EAGAIN', null)(error);
  }
}

/** Reads to the end. A file that grows meanwhile is not read: it has to be read again. */
async function readWhole(handle: FileHandle, size: number): Promise<Result<Uint8Array, string>> {
  const buffer = new Uint8Array(size + 1);
  let length = 0;
  for (;;) {
    const { bytesRead } = await handle.read(buffer, length, buffer.length - length, length);
    length += bytesRead;
    if (length > size) return fail('it grew while it was read');
    if (bytesRead === 0) return ok(buffer.subarray(0, length));
  }
}

/** Part of a sentence for an error of the file system: never its raw text, which names resolved paths. */
export function explainReason(error: unknown): string {
  const code = getErrorCode(error, '');
  return reasons[code] ?? (code === '' ? 'an unexpected error' : `the system said ${code}`);
}

const special = 'it is a special file, not a regular file';
const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'it does not exist',
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  ELOOP: 'it is a link that leads back to itself, or was replaced by a link while being read',
  ENOTDIR: 'a part of the path is not a directory',
  EISDIR: 'it is a directory',
  ENXIO: special,
  ENODEV: special,
  EMFILE: 'too many files are open',
  ENFILE: 'too many files are open',
  EIO: 'the disk reported an error',
};

/** What a path is, for a message. */
export function getFileKind(stats: BigIntStats): string {
  if (stats.isDirectory()) return 'a directory';
  if (stats.isFIFO()) return 'a FIFO';
  if (stats.isSocket()) return 'a socket';
  return stats.isCharacterDevice() || stats.isBlockDevice() ? 'a device' : 'a special file';
}
