import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { isDeepStrictEqual } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { Worker } from 'node:worker_threads';
import { type ParseFiles, type ParseOptions, refuseAll, selectManifestFiles } from '../desired/parse-files.ts';
import { type FileManifests, refuseFile } from '../manifest/manifest.ts';
import { type ReadOptions, readManifests } from '../manifest/read-manifests.ts';
import { makeError } from '../model/problem.ts';
import { getErrorCode } from '../model/result.ts';
import type { SourceFile } from '../ports.ts';
import { systemClock } from './clock.ts';
import { createQueue } from './queue.ts';

/** Bytes worth a thread, which takes 0.3 s to start: `together` where nothing may hold the event loop, `alone` to bound a file's cost. */
const worthAThread = { together: 250_000, alone: 1_000_000 } as const;
const mostThreads = 4;
/** Memory that a thread may need for each byte of a file: 7 MB of users took 480 MB. */
const memoryPerByte = 70;
/** How long a thread may be silent, in ms: a tenth of this is enough for a file that costs all that it may. */
const silenceMs = 300_000;
/** How long a thread rests before it is ended, in ms: Node 20 aborts the whole process when V8 still compiles for the thread then. */
const restMs = 50;
/** Bytes from which what the parser leaves behind makes up most of the process's memory. */
const muchToParse = 3_000_000;

declare const __RECONCILE_WORKER__: string | undefined;

/** Where the worker's bundle is, or its code; null when the sources run without the build, and all is parsed in place. */
function findManifestWorker(): URL | null {
  // The single executable has no files beside it, so that it carries the code.
  if (typeof __RECONCILE_WORKER__ === 'string') {
    return new URL(`data:text/javascript;base64,${Buffer.from(__RECONCILE_WORKER__).toString('base64')}`);
  }
  const places = ['./manifest-worker.js', '../manifest-worker.js'].map((path) => new URL(path, import.meta.url));
  return places.find((place) => existsSync(place)) ?? null;
}

/** What is absent: the worker of this build, and `alone`. */
export interface ParserMeans {
  readonly workerUrl?: URL | null;
  readonly measure?: keyof typeof worthAThread;
}

/**
 * A parser that remembers, by their content, the files of the last two sets of files that it was given: the manifests last
 * applied take turns with the present ones. What is new and large it parses in threads, one file at a time each, so that no file can
 * hold up the event loop. A file that costs more than its limits of work or memory becomes a problem, and so does the largest file
 * when all cost more together. Rejects when a thread dies for another reason: that says nothing about a file.
 */
export function createManifestParser(
  options: ParseOptions,
  { workerUrl = findManifestWorker(), measure = 'alone' }: ParserMeans = {},
): ParseFiles {
  let latest: ReadonlyMap<string, FileManifests> = new Map();
  let before: ReadonlyMap<string, FileManifests> = new Map();
  let last: Awaited<ReturnType<ParseFiles>> = { files: [], manifests: [] };
  const remembered = (file: SourceFile): FileManifests | undefined =>
    latest.get(keyOf(file)) ?? before.get(keyOf(file));
  // One set of files at a time: whoever asks for the same meanwhile finds it parsed.
  const oneAtATime = createQueue();
  const parse: ParseFiles = async (files) => {
    if (isDeepStrictEqual(files.map(keyOf), last.files.map(keyOf))) return last;
    growHeapSlowly(files);
    const chosen = selectManifestFiles(files, options.limits);
    const spent = { work: chosen.reduce((total, file) => total + (remembered(file)?.work ?? 0), 0) };
    const missing = chosen.filter((file) => remembered(file) === undefined);
    const parsed = await parseApart(worthApart(missing, measure), workerUrl, options, spent);
    const used = new Map<string, FileManifests>();
    for (const file of chosen) {
      const known = remembered(file) ?? parsed.get(file);
      // Once all together cost too much, nothing more is read.
      if (known === undefined && spent.work > options.limits.work) continue;
      const manifests = known ?? readManifests(file, options);
      if (known === undefined) spent.work += manifests.work;
      used.set(keyOf(file), manifests);
    }
    [before, latest] = [latest, used];
    const isTooMuch = spent.work > options.limits.work;
    last = { files, manifests: isTooMuch ? refuseAll(chosen, options.limits) : [...used.values()] };
    return last;
  };
  return (files) => oneAtATime(() => parse(files));
}

/** A parser has one profile and one set of values: beside these a file's manifests depend on no more than this. */
function keyOf({ path, hash }: SourceFile): string {
  return `${hash} ${path}`;
}

function worthApart(files: readonly SourceFile[], measure: keyof typeof worthAThread): readonly SourceFile[] {
  const chosen = measure === 'alone' ? files.filter(({ bytes }) => bytes.length >= worthAThread.alone) : files;
  const total = chosen.reduce((sum, { bytes }) => sum + bytes.length, 0);
  return total < worthAThread[measure] ? [] : chosen;
}

async function parseApart(
  files: readonly SourceFile[],
  workerUrl: URL | null,
  options: ParseOptions,
  spent: { work: number },
): Promise<ReadonlyMap<SourceFile, FileManifests>> {
  const parsed = new Map<SourceFile, FileManifests>();
  if (workerUrl === null || files.length === 0) return parsed;
  // Taken from the end: the largest first, lest one thread works on it alone while the others have nothing left.
  const queue = [...files].sort((a, b) => a.bytes.length - b.bytes.length);
  const largest = queue.at(-1)?.bytes.length ?? 0;
  // All threads together keep to the limit of memory.
  const roomFor = Math.max(1, Math.floor((options.limits.parseMb * 1_000_000) / (largest * memoryPerByte)));
  const threads = Math.min(availableParallelism(), mostThreads, queue.length, roomFor);
  const parseMb = Math.max(leastMb, Math.floor(options.limits.parseMb / threads));
  await Promise.all(Array.from({ length: threads }, drain));
  return parsed;

  /** One thread's share: takes files until there are none; a thread that ran out of memory is replaced by the next. */
  async function drain(): Promise<void> {
    while (workerUrl !== null && queue.length > 0) {
      const thread = startThread(workerUrl, options, parseMb);
      try {
        for (let file = queue.pop(); file !== undefined; file = queue.pop()) {
          const manifests = await thread.parse(file);
          parsed.set(file, manifests ?? outOfMemory(file.path, options.limits.parseMb));
          spent.work += manifests?.work ?? 0;
          if (spent.work > options.limits.work) queue.length = 0;
          if (manifests === null) break;
        }
      } finally {
        await thread.end();
      }
    }
  }
}

/** A thread does not start with less memory, in MB. */
const leastMb = 16;

/** With much to parse: V8's heap grows to four times what was live; slower, 100,000 rules take a third less memory, 10% more time. */
export function growHeapSlowly(files: readonly Pick<SourceFile, 'bytes'>[]): void {
  const total = files.reduce((sum, { bytes }) => sum + bytes.length, 0);
  if (total < muchToParse) return;
  setFlagsFromString('--heap-growing-percent=60');
  setFlagsFromString('--semi-space-growth-factor=1');
}

function makeDeath(why: string): Error {
  return Object.assign(new Error(`the thread that reads manifests died (${why})`), { code: 'reader-died' });
}

function startThread(workerUrl: URL, options: ReadOptions, parseMb: number) {
  // The thread needs neither the environment nor the standard streams.
  const worker = new Worker(workerUrl, {
    env: {},
    resourceLimits: { maxOldGenerationSizeMb: parseMb },
    stdout: true,
    stderr: true,
  });
  // Rejects with the error when there is one.
  const ended = once(worker, 'exit').then(([code]) => Promise.reject(makeDeath(`exit code ${code}`)));
  ended.catch(() => undefined);
  return {
    /** Null when the file needed too much memory; the thread is of no use afterwards. Rejects when the thread died otherwise. */
    async parse({ path, bytes }: SourceFile): Promise<FileManifests | null> {
      const signal = AbortSignal.timeout(silenceMs);
      try {
        worker.postMessage([{ path, bytes }, options]);
        const [manifests] = await Promise.race([once(worker, 'message', { signal }), ended]);
        return manifests;
      } catch (error) {
        const code = getErrorCode(error);
        if (code === 'ERR_WORKER_OUT_OF_MEMORY') return null;
        throw code === 'reader-died' ? error : makeDeath(signal.aborted ? `no answer in ${silenceMs / 1000} s` : code);
      }
    },
    async end(): Promise<void> {
      await systemClock.sleep(restMs);
      await worker.terminate();
    },
  };
}

function outOfMemory(path: string, parseMb: number): FileManifests {
  const summary = `Reading this file takes more than ${parseMb} MB of memory (\`limits.parseMb\`).`;
  const place = { file: path, line: 1, column: 1 };
  return refuseFile(path, [makeError('too-expensive', summary, 'Split it into several files.', place)]);
}
