import { readFile, stat, writeFile } from 'node:fs/promises';
import { lock } from 'proper-lockfile';
import type { Lease, LeaseTimes } from '../../controller/lease.ts';
import { leaseTerm } from '../../controller/lease.ts';
import type { Clock, Logger } from '../../ports.ts';

/** Where the lock lies: a path that every replica on this host shares. */
export interface LockFileSettings {
  readonly path: string;
  readonly identity: string;
  readonly times: LeaseTimes & { readonly updateMs: number };
  readonly clock: Clock;
  readonly logger: Logger;
  readonly onChange: () => void;
}

/**
 * A lock on one host. The lock is a directory whose time is renewed; a second file names the holder. Once the time has run
 * out (the process was paused), this process never writes on it again before it has taken the lock anew.
 */
export function lockFileLease(settings: LockFileSettings): Lease {
  const { clock, times, path } = settings;
  const stop = new AbortController();
  const term = leaseTerm(clock, times);
  const owner = `${path}.owner`;
  let held = new AbortController();
  let holder: string | null = null;
  let writer = false;
  let release: (() => Promise<void>) | null = null;

  const settle = (): void => {
    const now = term.leftMs() > times.marginMs;
    if (now === writer) return;
    writer = now;
    if (now) held = new AbortController();
    else held.abort();
    settings.logger.info(now ? 'This replica writes now' : 'This replica does not write any more', {
      holder: holder ?? '',
    });
    settings.onChange();
  };

  const acquire = async (): Promise<void> => {
    const sentAt = { now: clock.now(), wallTime: clock.wallTime() };
    try {
      release = await lock(path, {
        realpath: false,
        stale: times.durationMs,
        update: times.updateMs,
        onCompromised: () => {
          release = null;
          term.lost();
          settle();
        },
      });
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? String(error.code) : 'failed';
      if (code !== 'ELOCKED') settings.logger.warn('The lock file cannot be used', { code });
      holder = await readFile(owner, 'utf8').catch(() => null);
      return;
    }
    await writeFile(owner, settings.identity);
    holder = settings.identity;
    term.renewed(sentAt);
  };

  /** The library renews the directory's time; what the file system shows is what other replicas go by. */
  const confirm = async (): Promise<void> => {
    if (term.leftMs() === 0) return; // paused for too long: the lock may have been taken in the meantime
    const now = clock.now();
    const wallTime = clock.wallTime();
    const found = await stat(`${path}.lock`).catch(() => null);
    const mine = (await readFile(owner, 'utf8').catch(() => '')) === settings.identity;
    if (found === null || !mine) return term.lost();
    const age = Math.max(0, wallTime - found.mtimeMs);
    term.renewed({ now: now - age, wallTime: wallTime - age });
  };

  const giveUp = async (): Promise<void> => {
    const mine = (await readFile(owner, 'utf8').catch(() => '')) === settings.identity;
    const free = release;
    release = null;
    if (mine && free !== null) await free().catch(() => undefined); // taken by another in the meantime: nothing to free
  };

  const running = (async () => {
    while (!stop.signal.aborted) {
      if (release === null) await acquire();
      else if (term.leftMs() === 0) await giveUp();
      else await confirm();
      settle();
      await clock.sleep(
        Math.min(times.updateMs, writer ? Math.max(50, term.leftMs() - times.marginMs) : times.updateMs),
        stop.signal,
      );
      settle();
    }
  })();

  return {
    mayStart: () => term.leftMs() > times.marginMs,
    mayWrite: () => term.leftMs() > times.marginMs / 2,
    signal: () => held.signal,
    holder: () => holder,
    async release() {
      stop.abort();
      await running;
      term.lost();
      await giveUp();
    },
  };
}
