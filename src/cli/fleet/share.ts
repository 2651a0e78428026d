import { createHash } from 'node:crypto';
import path from 'node:path';
import { systemClock } from '../../adapters/clock.ts';
import type { ParseFiles } from '../../desired/parse-files.ts';
import type { Source, SourceReading } from '../../ports.ts';
import { makeParser, readParseOptions } from '../manifests.ts';
import type { Settings } from '../settings.ts';
import type { OpenSource, WatchedSource } from '../watch/invocation.ts';
import { openSource } from '../watch/source.ts';

/** Runs work one after another. */
function createLine(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const turn = last.then(work);
    last = turn.catch(() => undefined);
    return turn;
  };
}

/**
 * Lets so many go on at once. Who takes longer than `slowMs` counts no more: it waits for a server, and must not keep
 * others from theirs.
 */
export function createPool(width: number, slowMs: number): <T>(work: () => Promise<T>) => Promise<T> {
  let free = width;
  const waiting: (() => void)[] = [];
  return async (work) => {
    if (free > 0) free--;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    let isOut = false;
    const leave = (): void => {
      if (isOut) return;
      isOut = true;
      const next = waiting.shift();
      if (next === undefined) free++;
      else next();
    };
    const slow = setTimeout(leave, slowMs);
    try {
      return await work();
    } finally {
      clearTimeout(slow);
      leave();
    }
  };
}

/** Values by a key; the oldest are forgotten. */
function createMemory<T>(most: number) {
  const known = new Map<string, T>();
  return {
    recall(key: string, make: () => T): T {
      const found = known.get(key);
      if (found !== undefined) return found;
      const made = make();
      known.set(key, made);
      if (known.size > most) known.delete([...known.keys()][0] ?? '');
      return made;
    },
    forget: (key: string): boolean => known.delete(key),
    values: () => known.values(),
  };
}

/** More than targets have. */
const mostShared = 10_000;

/** One parser for all that read the same manifests in the same way: what one of them parsed the others are given. */
export function shareParsers(): (settings: Settings, root: string | null) => ParseFiles {
  const parsers = createMemory<ParseFiles>(mostShared);
  return (settings, root) => {
    const { profile, values, limits } = readParseOptions(settings);
    const where = root ?? [settings.gitUrl, settings.gitRef, settings.gitPath];
    const key = JSON.stringify([where, profile, values === null ? null : [...values], limits]);
    return parsers.recall(key, () => {
      const [parse, inLine] = [makeParser(settings), createLine()];
      return (files) => inLine(() => parse(files));
    });
  };
}

/** How old a reading may be that another target asked for; a change that was noticed is read at once. */
const freshMs = 250;
/** The same of a remote, where each look costs a connection: half the usual time between passes. */
const freshShare = 0.5;
/** Revisions whose content is kept: the one in force in each wave. */
const mostRevisions = 4;

/** How often sources are looked at anew because settings were read again: once for all targets. */
const renewMs = 1000;

/** One source for all targets that read the same: one look, one fetch, one watch of the directory. */
export interface SharedSources {
  readonly open: OpenSource;
  /** What was read counts no more. */
  readonly renew: () => Promise<void>;
}

/** Opens each source once; clones lie in `folder`. */
export function shareSources(folder: string, stop: AbortSignal): SharedSources {
  const opened = createMemory<Promise<WatchedSource>>(mostShared);
  const open: OpenSource = (context, _state, references) => {
    const { settings, operands } = context;
    const { gitUrl, gitRef, gitPath, values, profile, interval } = settings;
    const git = gitUrl === null ? null : [gitUrl, gitRef, gitPath, values, profile];
    const key = JSON.stringify([operands, git, settings.file?.nested.limits]);
    const sharing = opened.recall(key, async () => {
      const own = path.join(folder, createHash('sha256').update(key).digest('hex').slice(0, 12));
      const source = await openSource(context, own, references);
      return shareSource(source, gitUrl === null ? freshMs : interval * freshShare, stop);
    });
    sharing.catch(() => opened.forget(key));
    return sharing;
  };
  return {
    open,
    renew: async () => {
      for (const one of opened.values()) (await one).forget();
    },
  };
}

function shareSource(one: WatchedSource, maxAgeMs: number, stop: AbortSignal): WatchedSource {
  const { source, root } = one;
  const inLine = createLine();
  let last: { readonly at: number; readonly reading: Promise<SourceReading> } | null = null;
  let same: SourceReading['content'] = null;
  let renewedAt = Number.NEGATIVE_INFINITY;
  const forget = (): void => {
    last = null;
  };
  /** The same revision is the same content: many hold it. */
  const keepOne = (reading: SourceReading): SourceReading => {
    if (reading.content !== null && reading.content.revision !== same?.revision) same = reading.content;
    return reading.content === null ? reading : { ...reading, content: same };
  };
  const read: Source['read'] = (signal, firstSeen) => {
    if (last === null || systemClock.now() - last.at > maxAgeMs) {
      const reading = inLine(() => source.read(stop, firstSeen)).then(keepOne);
      reading.catch(forget);
      last = { at: systemClock.now(), reading };
    }
    return untilStopped(last.reading, signal);
  };
  return {
    root,
    source: { description: source.description, read, ...sharePast(source, stop, inLine) },
    follow: shareWake(one, forget),
    forget() {
      if (systemClock.now() - renewedAt < renewMs) return;
      renewedAt = systemClock.now();
      forget();
      one.forget();
    },
  };
}

/** One watch of a directory for all that follow it, as long as one does. */
function shareWake(one: WatchedSource, forget: () => void): WatchedSource['follow'] {
  const followers = new Set<() => void>();
  let wake: ReturnType<WatchedSource['follow']> = null;
  const wakeAll = (): void => {
    forget();
    for (const follower of followers) follower();
  };
  return (settings) => {
    followers.add(settings.wake);
    wake ??= one.follow({ ...settings, wake: wakeAll });
    if (wake === null) return null;
    const { degraded, close } = wake;
    return {
      degraded,
      close: async () => {
        followers.delete(settings.wake);
        if (followers.size > 0) return;
        wake = null;
        await close();
      },
    };
  };
}

/** What a source says of revisions that are known; an answer that could not be had is asked for again. */
function sharePast({ readAt, descends }: Source, stop: AbortSignal, inLine: ReturnType<typeof createLine>) {
  if (readAt === undefined || descends === undefined) return {};
  const contents = createMemory<Promise<SourceReading>>(mostRevisions);
  const descents = createMemory<ReturnType<typeof descends>>(mostRevisions);
  const past: Required<Pick<Source, 'readAt' | 'descends'>> = {
    async readAt(revision, signal, firstSeen) {
      const work = contents.recall(revision, () => inLine(() => readAt(revision, stop, firstSeen)));
      const reading = await untilStopped(work, signal);
      if (reading.content === null) contents.forget(revision);
      return reading;
    },
    async descends(from, to, signal) {
      const key = `${from} ${to}`;
      const descent = await untilStopped(
        descents.recall(key, () => inLine(() => descends(from, to, stop))),
        signal,
      );
      if (descent === 'unasked') descents.forget(key);
      return descent;
    },
  };
  return past;
}

/** Another's work goes on when one who waits for it is told to stop. */
function untilStopped<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  if (signal.aborted) return Promise.reject(new Error('stopped'));
  return new Promise((resolve, reject) => {
    const onStop = (): void => reject(new Error('stopped'));
    signal.addEventListener('abort', onStop, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onStop));
  });
}
