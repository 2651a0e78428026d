import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import { Worker } from 'node:worker_threads';
import { type ParseFiles, type ParseOptions, parseFile, selectManifestFiles } from '../desired/parse-files.ts';
import type { FileManifests } from '../manifest/manifest.ts';
import type { ReadRequest } from '../manifest/read-manifests.ts';
import type { SourceFile } from '../ports.ts';
import { type SealedManifests, unseal } from './sealed-manifests.ts';

/**
 * Bytes from which parsing goes to a thread: of all files together where nothing may hold the event loop (the controller's
 * probes), of one file where only its cost must be bounded (starting and warming up a thread takes about 0.3 s).
 */
const worthAThread = { together: 250_000, alone: 1_000_000 } as const;
/** Bounds without settings: a file of 20,000 rules takes about 1 s and 100 MB. */
const defaultParseMs = 30_000;
const defaultParseMb = 512;
const mostThreads = 4;
/** Bytes from which what the parser leaves behind makes up most of the process's memory. */
const muchToParse = 5_000_000;

/** Where the worker's bundle is; null when the sources run without the build, and all is parsed in place. */
export function manifestWorker(): URL | null {
  const places = ['./manifest-worker.js', '../manifest-worker.js'].map((path) => new URL(path, import.meta.url));
  return places.find((place) => existsSync(place)) ?? null;
}

/**
 * A parser that remembers, by their content, the files of the last two sets of files that it was given: the manifests last
 * applied take turns with the present ones. What is new and large it parses in threads, one file at a time each, so that no
 * file can hold up the event loop. A file that takes too long or too much memory becomes a problem, and its thread is ended.
 */
export function createManifestParser(
  options: ParseOptions,
  { workerUrl, measure }: { readonly workerUrl: URL | null; readonly measure: keyof typeof worthAThread },
): ParseFiles {
  let latest: ReadonlyMap<string, FileManifests> = new Map();
  let before: ReadonlyMap<string, FileManifests> = new Map();
  const remembered = (file: SourceFile): FileManifests | undefined =>
    latest.get(keyOf(file)) ?? before.get(keyOf(file));
  return async (files) => {
    if (files.reduce((total, { bytes }) => total + bytes.length, 0) >= muchToParse) growHeapSlowly();
    const chosen = selectManifestFiles(files, options.limits);
    const missing = chosen.filter((file) => remembered(file) === undefined);
    const apart = workerUrl === null ? new Map() : await parseApart(worthApart(missing, measure), workerUrl, options);
    const used = new Map<string, FileManifests>();
    for (const file of chosen) {
      used.set(keyOf(file), remembered(file) ?? apart.get(file) ?? parseFile(file, options));
    }
    if ([...latest.keys()].some((key) => !used.has(key))) before = latest;
    latest = used;
    return { files, manifests: [...used.values()] };
  };
}

/** A parser has one profile and one set of values: beside these a file's manifests depend on no more than this. */
function keyOf({ path, hash }: SourceFile): string {
  return `${hash} ${path}`;
}

/** The files among these that are worth a thread. */
function worthApart(files: readonly SourceFile[], measure: keyof typeof worthAThread): readonly SourceFile[] {
  const chosen = measure === 'alone' ? files.filter(({ bytes }) => bytes.length >= worthAThread.alone) : files;
  const total = chosen.reduce((sum, { bytes }) => sum + bytes.length, 0);
  return total < worthAThread[measure] ? [] : chosen;
}

async function parseApart(
  files: readonly SourceFile[],
  workerUrl: URL,
  options: ParseOptions,
): Promise<ReadonlyMap<SourceFile, FileManifests>> {
  const parsed = new Map<SourceFile, FileManifests>();
  // Taken from the end: the largest first, lest one thread works on it alone while the others have nothing left.
  const queue = [...files].sort((a, b) => a.bytes.length - b.bytes.length);
  const threads = Math.min(availableParallelism(), mostThreads, queue.length);
  await Promise.all(Array.from({ length: threads }, () => drain({ workerUrl, queue, options, parsed })));
  return parsed;
}

/** V8 collects when the heap is four times what was live; at twice, 100,000 rules take a quarter less and 7% more time. */
function growHeapSlowly(): void {
  setFlagsFromString('--heap-growing-percent=100');
}

interface Work {
  readonly workerUrl: URL;
  /** Taken from the end. */
  readonly queue: SourceFile[];
  readonly options: ParseOptions;
  readonly parsed: Map<SourceFile, FileManifests>;
}

/** One thread's share: takes files until there are none; a thread that dies is replaced by the next. */
async function drain(work: Work): Promise<void> {
  while (work.queue.length > 0) {
    const thread = startThread(work);
    try {
      for (let file = work.queue.pop(); file !== undefined; file = work.queue.pop()) {
        const manifests = await thread.parse(file);
        work.parsed.set(file, manifests ?? tooExpensive(file.path));
        if (manifests === null) break;
      }
    } finally {
      await thread.end();
    }
  }
}

interface Thread {
  /** Null when the file cost too much; the thread is of no use afterwards. */
  parse(file: SourceFile): Promise<FileManifests | null>;
  end(): Promise<unknown>;
}

function startThread({ workerUrl, options }: Work): Thread {
  const { profile, values, limits } = options;
  const maxOldGenerationSizeMb = limits.parseMb ?? defaultParseMb;
  // The thread needs neither the environment nor the standard streams.
  const worker = new Worker(workerUrl, {
    env: {},
    resourceLimits: { maxOldGenerationSizeMb },
    stdout: true,
    stderr: true,
  });
  let ended = false;
  let settle: (manifests: FileManifests | null) => void = () => {};
  worker.on('message', (sealed: SealedManifests) => settle(unseal(sealed)));
  for (const event of ['error', 'exit'] as const) {
    worker.on(event, () => {
      ended = true;
      settle(null);
    });
  }
  return {
    async parse({ path, bytes }) {
      if (ended) return null;
      const answer = new Promise<FileManifests | null>((resolve) => {
        settle = resolve;
      });
      const timer = setTimeout(() => settle(null), limits.parseMs ?? defaultParseMs);
      const request: ReadRequest = { path, bytes, profile, values, documents: limits.documents };
      worker.postMessage(request);
      const manifests = await answer;
      clearTimeout(timer);
      return manifests;
    },
    end: () => worker.terminate(),
  };
}

function tooExpensive(path: string): FileManifests {
  return {
    path,
    manifests: [],
    suppressions: [],
    problems: [
      {
        code: 'too-expensive',
        severity: 'error',
        summary: 'Reading this file takes too much time or memory.',
        hint: 'Split it into several files; the bounds are `limits.parseMs` and `limits.parseMb` in the settings.',
        place: { file: path, line: 1, column: 1 },
      },
    ],
  };
}
