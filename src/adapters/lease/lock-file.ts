import { readFile, stat, utimes, writeFile } from 'node:fs/promises';
import { lock } from 'proper-lockfile';
import type { Lease } from '../../controller/lease.ts';
import { getErrorCode } from '../../model/result.ts';
import { recordText } from '../record-store.ts';
import type { LeaseBasics, Tenure } from './renewed.ts';
import { keepLease, NotRenewed } from './renewed.ts';

/** Where the lock lies: a path that every replica on this host shares. */
export interface LockFileSettings extends LeaseBasics {
  readonly path: string;
  readonly times: LeaseBasics['times'] & { readonly updateMs: number };
}

/**
 * A lock on one host. The lock is a directory whose time is renewed; `PATH.owner` names the holder, and is empty once it was
 * given back; `PATH.record` holds the controller's record. Once the time has run out (the process was paused), this process
 * never writes on it again before it has taken the lock anew. A lock that somebody removed is not taken before its holder must
 * have noticed.
 */
export function holdLockFile(settings: LockFileSettings): Lease {
  const { clock, times, path, identity } = settings;
  const owner = `${path}.owner`;
  const record = recordText(`${path}.record`);
  let heldAt: number | null = null;
  let release: (() => Promise<void>) | null = null;
  let unchanged: { readonly mtimeMs: number; readonly since: number } | null = null;
  const ownerNow = (): Promise<string | null> => readFile(owner, 'utf8').catch(() => null);

  /**
   * A lock from the future (the clock was set back) would look fresh for ever: when nobody has renewed it for its whole duration,
   * by the monotonic clock, it is made to look stale.
   */
  const outOfFuture = async (): Promise<void> => {
    const found = await stat(`${path}.lock`).catch(() => null);
    const mtimeMs = found?.mtimeMs ?? 0;
    if (mtimeMs <= clock.wallTime()) unchanged = null;
    else if (unchanged?.mtimeMs !== mtimeMs) unchanged = { mtimeMs, since: clock.now() };
    else if (clock.now() - unchanged.since >= times.durationMs) await utimes(`${path}.lock`, 0, 0);
  };

  /** Whether somebody else held the lock a moment ago, and did not give it back. */
  const mayBeHeld = async (): Promise<boolean> =>
    heldAt !== null && clock.now() - heldAt < times.durationMs && !!(await ownerNow());

  const acquire = async (tenure: Tenure): Promise<void> => {
    if ((await stat(`${path}.lock`).catch(() => null)) === null && (await mayBeHeld())) return;
    const sentAt = { now: clock.now(), wallTime: clock.wallTime() };
    let taken: () => Promise<void>;
    try {
      taken = await lock(path, {
        realpath: false,
        stale: times.durationMs,
        update: times.updateMs,
        onCompromised: () => {
          release = null;
          tenure.lost('nobody');
        },
      });
    } catch (error) {
      const code = getErrorCode(error);
      tenure.holder = (await ownerNow()) || null;
      if (code !== 'ELOCKED') throw new NotRenewed(code, `the lock file ${path} cannot be used`);
      heldAt = clock.now();
      return outOfFuture();
    }
    try {
      await writeFile(owner, identity);
    } catch (error) {
      await taken().catch(() => undefined); // it goes stale by itself
      throw error;
    }
    release = taken;
    tenure.holder = identity;
    heldAt = null;
    tenure.term.renewed(sentAt);
  };

  /** The library renews the directory's time; what the file system shows is what other replicas go by. */
  const confirm = async ({ term, lost }: Tenure): Promise<void> => {
    const now = clock.now();
    const wallTime = clock.wallTime();
    const found = await stat(`${path}.lock`).catch(() => null);
    const holder = await ownerNow();
    if (found === null || holder !== identity) {
      heldAt = now; // it was ours until now, and is waited for as if it were another's
      return lost(holder === identity || !holder ? 'nobody' : 'another');
    }
    const age = Math.max(0, wallTime - found.mtimeMs);
    term.renewed({ now: now - age, wallTime: wallTime - age });
  };

  const giveUp = async (): Promise<void> => {
    const mine = (await ownerNow()) === identity;
    const free = release;
    release = null;
    if (!mine || free === null) return; // taken by another in the meantime: nothing to free
    await writeFile(owner, '').catch(() => undefined); // then others wait for it to run out
    await free().catch(() => undefined);
  };

  return keepLease(settings, times.updateMs, {
    async turn(tenure) {
      if (release === null) await acquire(tenure);
      // Paused for too long: the lock may have been taken in the meantime.
      else if (tenure.term.leftMs() === 0) await giveUp();
      else await confirm(tenure);
    },
    free: giveUp,
    readRecord: () => record.read(),
    async writeRecord(text, tenure) {
      if (release === null) return false;
      await confirm(tenure);
      return tenure.term.leftMs() > times.marginMs && record.write(text);
    },
  });
}
