import { createHash } from 'node:crypto';
import path from 'node:path';
import { systemClock } from '../../adapters/clock.ts';
import type { ParserMeans } from '../../adapters/manifest-parser.ts';
import type { ParseFiles } from '../../desired/parse-files.ts';
import { getOrMake } from '../../model/group-by.ts';
import type { Descent, FirstSeen, Source, SourceContent, SourceReading } from '../../ports.ts';
import type { Settings } from '../command.ts';
import { makeParser, readParseOptions } from '../manifests.ts';
import { optionNames } from '../options.ts';
import type { OpenSource, WatchedSource } from '../watch/invocation.ts';
import { openSource } from '../watch/source.ts';

/** Lets so many go on at once. One that takes longer than `slowMs` waits for its server, and counts no more. */
export function createPool(width: number, slowMs: number | null): <T>(work: () => Promise<T>) => Promise<T> {
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
    const slow = slowMs === null ? undefined : setTimeout(leave, slowMs);
    try {
      return await work();
    } finally {
      clearTimeout(slow);
      leave();
    }
  };
}

/** One parser for all that read the same manifests in the same way: what one of them parsed the others are given. */
export function shareParsers(means: ParserMeans = {}): (settings: Settings, root: string | null) => ParseFiles {
  const parsers = new Map<string, ParseFiles>();
  return (settings, root) => {
    const { profile, values, limits } = readParseOptions(settings);
    const where = root ?? [settings.gitUrl, settings.gitRef, settings.gitPath];
    const key = JSON.stringify([where, profile, values === null ? null : [...values], limits]);
    return getOrMake(parsers, key, () => makeParser(settings, means));
  };
}

/** How old a reading may be that another target asked for; a change that was noticed is read at once. */
const freshMs = 250;
/** The same of a remote, where each look costs a connection: half the usual time between passes. */
const freshShare = 0.5;
/** Revisions whose content is kept: the one in force in each wave. */
const mostRevisions = 4;

/** What a source depends on. Whom a target believes, and as whom it asks, are its own: no other's answer counts for it. */
function describeSource({ settings, operands }: Parameters<OpenSource>[0]): string {
  const { gitUrl, values, profile, file } = settings;
  const git = optionNames.filter((name) => name.startsWith('git')).map((name) => settings[name]);
  return JSON.stringify([operands, gitUrl === null ? null : [git, values, profile], file?.nested.limits]);
}

/** One source for all targets that read the same: one look, one fetch, one watch of the directory; clones lie in `folder`. */
export function shareSources(folder: string, stop: AbortSignal) {
  const opened = new Map<string, Promise<WatchedSource>>();
  const open: OpenSource = async (context, _state, references) => {
    const { gitUrl, interval } = context.settings;
    const key = describeSource(context);
    const sharing = getOrMake(opened, key, async () => {
      const own = path.join(folder, createHash('sha256').update(key).digest('hex').slice(0, 12));
      const source = await openSource(context, own, references);
      return shareSource(source, gitUrl === null ? freshMs : interval * freshShare, stop);
    });
    sharing.catch(() => opened.delete(key));
    // All targets read their settings again at once: `renew` forgets for all of them.
    return { ...(await sharing), forget: () => undefined };
  };
  return {
    open,
    renew: async (): Promise<void> => {
      // One that cannot be opened is said where it is opened.
      for (const one of opened.values()) await one.then((shared) => shared.forget()).catch(() => undefined);
    },
  };
}

/** One source for all; `maxAgeMs`: how old a reading may be that another asked for. */
export function shareSource(one: WatchedSource, maxAgeMs: number, stop: AbortSignal): WatchedSource {
  const { source, root } = one;
  const inLine = createPool(1, null);
  let last: { at: number; readonly reading: Promise<SourceReading> } | null = null;
  const contents = new Map<string, SourceContent>();
  const descents = new Map<string, Descent>();
  /** The same revision is the same content: many hold it. */
  const keep = ({ content, ...reading }: SourceReading): SourceReading => ({
    ...reading,
    content: content && remember(contents, content.revision, content),
  });
  const lookAgain = (): void => {
    last = null;
  };
  const join = joinFirstSeen();
  const { readAt, descends } = source;
  // What all wait for ends with the process alone: whoever has to go on leaves it to the others.
  const past: Pick<Source, 'readAt' | 'descends'> = {
    ...(readAt && {
      readAt: (revision, signal, seen) => {
        const read = async () => keep(await readAt.call(source, revision, stop, join(seen)));
        const readInTurn = () => inLine(() => findOr(contents, revision, read));
        return leaveInTime(findOr(contents, revision, readInTurn), signal);
      },
    }),
    ...(descends && {
      descends: (from, to) =>
        inLine(async () => {
          const known = descents.get(`${from} ${to}`);
          const answer = known ?? (await descends.call(source, from, to, stop));
          return answer === 'unasked' ? answer : remember(descents, `${from} ${to}`, answer);
        }),
    }),
  };
  return {
    root,
    source: {
      ...past,
      description: source.description,
      read: (signal, seen) => {
        const from = join(seen);
        if (last === null || systemClock.now() - last.at > maxAgeMs) {
          const reading = inLine(() => source.read(stop, from)).then(keep);
          const next = { at: Number.POSITIVE_INFINITY, reading };
          reading.catch(lookAgain).finally(() => (next.at = systemClock.now()));
          last = next;
        }
        return leaveInTime(last.reading, signal);
      },
    },
    follow: shareWake(one, lookAgain),
    forget() {
      lookAgain();
      contents.clear();
      one.forget();
    },
  };
}

/** What is known of a revision, which waits for no look that hangs; otherwise what `read` gives. */
function findOr(known: ReadonlyMap<string, SourceContent>, revision: string, read: () => Promise<SourceReading>) {
  const content = known.get(revision);
  return content === undefined ? read() : Promise.resolve({ content, problems: [] });
}

/** Waits for a reading as long as the signal lets it: Git may hang, and something else be due. */
async function leaveInTime(reading: Promise<SourceReading>, signal: AbortSignal): Promise<SourceReading> {
  const done = new AbortController();
  const left = systemClock.sleep(Number.POSITIVE_INFINITY, AbortSignal.any([signal, done.signal]));
  return await Promise.race([reading, left.then(() => ({ content: null, problems: [] }))]).finally(() => done.abort());
}

/** A commit was first seen when the first of all targets saw it. */
function joinFirstSeen(): (own?: FirstSeen) => FirstSeen {
  const all: Record<string, number> = {};
  return (own = {}) => {
    for (const [id, at] of Object.entries(own)) all[id] = Math.min(all[id] ?? at, at);
    return all;
  };
}

/** Keeps the last few; gives the one that was there before. */
function remember<T>(known: Map<string, T>, key: string, value: T): T {
  if (known.size > mostRevisions) known.clear();
  return getOrMake(known, key, () => value);
}

/** One watch of a directory for all that follow it, for the life of the process. */
function shareWake(one: WatchedSource, lookAgain: () => void): WatchedSource['follow'] {
  const followers = new Set<() => void>();
  let watch: ReturnType<WatchedSource['follow']> = null;
  const wakeAll = (): void => {
    lookAgain();
    for (const wake of followers) wake();
  };
  return (settings) => {
    followers.add(settings.wake);
    watch ??= one.follow({ ...settings, wake: wakeAll });
    return watch && { ...watch, close: async () => void followers.delete(settings.wake) };
  };
}
