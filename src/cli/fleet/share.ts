import { createHash } from 'node:crypto';
import path from 'node:path';
import { systemClock } from '../../adapters/clock.ts';
import type { ParseFiles } from '../../desired/parse-files.ts';
import type { Source, SourceReading } from '../../ports.ts';
import { makeParser, readParseOptions } from '../manifests.ts';
import type { Settings } from '../settings.ts';
import type { OpenSource, WatchedSource } from '../watch/invocation.ts';
import { openSource } from '../watch/source.ts';

/**
 * Lets so many go on at once. Who takes longer than `slowMs` counts no more: it waits for a server, and must not keep
 * others from theirs.
 */
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

/** Runs work one after another, however long each takes. */
const createLine = () => createPool(1, null);

/** What is known by this key, made where it is not. */
function recall<T>(known: Map<string, T>, key: string, make: () => T): T {
  const value = known.get(key) ?? make();
  known.set(key, value);
  return value;
}

/** One parser for all that read the same manifests in the same way: what one of them parsed the others are given. */
export function shareParsers(): (settings: Settings, root: string | null) => ParseFiles {
  const parsers = new Map<string, ParseFiles>();
  return (settings, root) => {
    const { profile, values, limits } = readParseOptions(settings);
    const where = root ?? [settings.gitUrl, settings.gitRef, settings.gitPath];
    const key = JSON.stringify([where, profile, values === null ? null : [...values], limits]);
    return recall(parsers, key, () => {
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

/** Sources are looked at anew once for all targets in this time, when settings are read again. */
const renewMs = 1000;

/** What a source from Git depends on. Whom a target believes, and as whom it asks, are its own: no other's answer counts for it. */
function listGit(settings: Settings): readonly unknown[] {
  const { gitUrl, gitRef, gitPath, gitAllow, gitVerifyOpenpgp, gitVerifySsh, values, profile } = settings;
  const { gitUsername, gitTokenFile, gitSshKey, gitKnownHosts, gitCaFile } = settings;
  const access = [gitUsername, gitTokenFile, gitSshKey, gitKnownHosts, gitCaFile];
  return [gitUrl, gitRef, gitPath, gitAllow, gitVerifyOpenpgp, gitVerifySsh, access, values, profile];
}

/** One source for all targets that read the same: one look, one fetch, one watch of the directory; clones lie in `folder`. */
export function shareSources(folder: string, stop: AbortSignal) {
  const opened = new Map<string, Promise<RenewedSource>>();
  const open: OpenSource = (context, _state, references) => {
    const { settings, operands } = context;
    const { gitUrl, interval } = settings;
    const key = JSON.stringify([operands, gitUrl === null ? null : listGit(settings), settings.file?.nested.limits]);
    const sharing = recall(opened, key, async () => {
      const own = path.join(folder, createHash('sha256').update(key).digest('hex').slice(0, 12));
      const source = await openSource(context, own, references);
      return shareSource(source, gitUrl === null ? freshMs : interval * freshShare, stop);
    });
    sharing.catch(() => opened.delete(key));
    return sharing;
  };
  return {
    open,
    /** What was read counts no more. */
    renew: async (): Promise<void> => {
      // One that cannot be opened is said where it is opened.
      for (const one of opened.values()) await one.then(({ renew }) => renew()).catch(() => undefined);
    },
  };
}

interface RenewedSource extends WatchedSource {
  /** What was read counts no more. */
  readonly renew: () => void;
}

function shareSource(one: WatchedSource, maxAgeMs: number, stop: AbortSignal): RenewedSource {
  const { source, root } = one;
  const inLine = createLine();
  let last: { readonly at: number; readonly reading: Promise<SourceReading> } | null = null;
  let same: SourceReading['content'] = null;
  let renewedAt = Number.NEGATIVE_INFINITY;
  const renew = (): void => {
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
      reading.catch(renew);
      last = { at: systemClock.now(), reading };
    }
    return untilStopped(last.reading, signal);
  };
  return {
    root,
    source: { description: source.description, read, ...sharePast(source, stop, inLine) },
    renew,
    follow: shareWake(one, renew),
    forget() {
      // All targets read their settings again at once.
      if (systemClock.now() - renewedAt < renewMs) return;
      renewedAt = systemClock.now();
      renew();
      one.forget();
    },
  };
}

/** One watch of a directory for all that follow it, as long as one does. */
function shareWake(one: WatchedSource, renew: () => void): WatchedSource['follow'] {
  const followers = new Set<() => void>();
  let wake: ReturnType<WatchedSource['follow']> = null;
  const wakeAll = (): void => {
    renew();
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
function sharePast(source: Source, stop: AbortSignal, inLine: ReturnType<typeof createLine>) {
  const readAt = source.readAt?.bind(source);
  const descends = source.descends?.bind(source);
  if (readAt === undefined || descends === undefined) return {};
  const contents = new Map<string, Promise<SourceReading>>();
  const descents = new Map<string, ReturnType<typeof descends>>();
  const past: Required<Pick<Source, 'readAt' | 'descends'>> = {
    async readAt(revision, signal, firstSeen) {
      if (contents.size > mostRevisions) contents.clear();
      const work = recall(contents, revision, () => inLine(() => readAt(revision, stop, firstSeen)));
      const reading = await untilStopped(work, signal);
      if (reading.content === null) contents.delete(revision);
      return reading;
    },
    async descends(from, to, signal) {
      if (descents.size > mostRevisions) descents.clear();
      const key = `${from} ${to}`;
      const descent = await untilStopped(
        recall(descents, key, () => inLine(() => descends(from, to, stop))),
        signal,
      );
      if (descent === 'unasked') descents.delete(key);
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
