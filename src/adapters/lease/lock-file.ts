import { readFile, stat, utimes, writeFile } from 'node:fs/promises';
import { lock } from 'proper-lockfile';
import type { Lease, LeaseHolder } from '../../controller/lease.ts';
import type { RecordText } from '../../controller/record.ts';
import { getErrorCode, replaceError } from '../../model/result.ts';
import { openRecordText, saysSuspended } from '../record-store.ts';
import { chooseRenewal, keepLease, type LeaseSettings, type LeaseStore, NotRenewed, type Tenure } from './renewed.ts';

/** Where the lock lies: a path that every replica on this host shares. */
export interface LockFileSettings extends LeaseSettings {
  readonly path: string;
}

/**
 * A lock on one host. The lock is a directory whose time is renewed; `PATH.owner` names the holder, and is empty once it was
 * given back; `PATH.record` holds the controller's record. Once the time has run out (the process was paused), this process
 * never writes on it again before it has taken the lock anew. A lock that somebody removed is not taken before its holder must
 * have noticed.
 */
export function holdLockFile(settings: LockFileSettings): Lease {
  return keepLease(settings, new LockFileStore(settings));
}

/** Who holds the lock, without taking part; null: nobody does. Rejects where that cannot be seen. */
export async function lookAtLockFile({ path, durationMs, clock }: LockFileSettings): Promise<LeaseHolder | null> {
  const found = await stat(`${path}.lock`).catch(replaceError('ENOENT', null));
  const name = await readFile(`${path}.owner`, 'utf8').catch(replaceError('ENOENT', ''));
  if (found === null || name === '' || clock.wallTime() - found.mtimeMs > durationMs) return null;
  const record = await openRecordText(`${path}.record`)
    .read()
    .catch(() => null);
  return { name, suspended: saysSuspended(record) };
}

class LockFileStore implements LeaseStore {
  readonly #settings: LockFileSettings;
  readonly #lock: string;
  readonly #owner: string;
  readonly #record: RecordText;
  #release: (() => Promise<void>) | null = null;
  #unchanged: { readonly mtimeMs: number; readonly since: number } | null = null;
  /** When somebody was last seen to hold the lock (monotonic, ms). */
  #heldAt: number | null = null;

  constructor(settings: LockFileSettings) {
    this.#settings = settings;
    this.#lock = `${settings.path}.lock`;
    this.#owner = `${settings.path}.owner`;
    this.#record = openRecordText(`${settings.path}.record`);
  }

  async turn(tenure: Tenure): Promise<void> {
    if (this.#release === null) await this.#acquire(tenure);
    // Paused for too long: the lock may have been taken in the meantime.
    else if (tenure.leftMs() === 0) await this.free();
    else await this.#confirm(tenure);
  }

  async free(): Promise<void> {
    const mine = (await this.#readOwner()) === this.#settings.identity;
    const release = this.#release;
    this.#release = null;
    if (!mine || release === null) return; // taken by another in the meantime: nothing to free
    await writeFile(this.#owner, '').catch(() => undefined); // then others wait for it to run out
    await release().catch(() => undefined);
  }

  readRecord(): Promise<string | null> {
    return this.#record.read();
  }

  async writeRecord(text: string, tenure: Tenure): Promise<boolean> {
    if (this.#release === null) return false;
    await this.#confirm(tenure);
    return tenure.startMs() > 0 && this.#record.write(text);
  }

  async #acquire(tenure: Tenure): Promise<void> {
    const { clock, identity } = this.#settings;
    if (await this.#mayBeHeld()) return;
    const sentAt = { now: clock.now(), wallTime: clock.wallTime() };
    const taken = await this.#take(tenure);
    if (taken === null) return;
    try {
      await writeFile(this.#owner, identity);
    } catch (error) {
      await taken().catch(() => undefined); // it goes stale by itself
      throw error;
    }
    this.#release = taken;
    this.#heldAt = null;
    tenure.renewed(sentAt);
  }

  /** Whether the lock is gone though somebody held it a moment ago and did not give it back. */
  async #mayBeHeld(): Promise<boolean> {
    const { clock, durationMs } = this.#settings;
    if (this.#heldAt === null || clock.now() - this.#heldAt >= durationMs) return false;
    return (await stat(this.#lock).catch(() => null)) === null && !!(await this.#readOwner());
  }

  /** Takes the lock; null: somebody else holds it. */
  async #take(tenure: Tenure): Promise<(() => Promise<void>) | null> {
    const { path, durationMs, clock } = this.#settings;
    try {
      return await lock(path, {
        realpath: false,
        stale: durationMs,
        update: chooseRenewal(this.#settings),
        onCompromised: () => {
          this.#release = null;
          tenure.lost('nobody');
        },
      });
    } catch (error) {
      const code = getErrorCode(error);
      tenure.holder = (await this.#readOwner()) || null;
      if (code !== 'ELOCKED') throw new NotRenewed(code, `the lock file ${path} cannot be used`);
      this.#heldAt = clock.now();
      await this.#ageFuture();
      return null;
    }
  }

  /** The library renews the directory's time; what the file system shows is what other replicas go by. */
  async #confirm({ renewed, lost }: Tenure): Promise<void> {
    const { clock, identity } = this.#settings;
    const now = clock.now();
    const wallTime = clock.wallTime();
    const found = await stat(this.#lock).catch(() => null);
    const holder = await this.#readOwner();
    if (found === null || holder !== identity) {
      this.#heldAt = now; // it was ours until now, and is waited for as if it were another's
      return lost(holder === identity || !holder ? 'nobody' : 'another');
    }
    const age = Math.max(0, wallTime - found.mtimeMs);
    renewed({ now: now - age, wallTime: wallTime - age });
  }

  /** A lock from the future (the clock was set back) that nobody renews for its whole duration is made to look stale. */
  async #ageFuture(): Promise<void> {
    const { clock, durationMs } = this.#settings;
    const found = await stat(this.#lock).catch(() => null);
    const mtimeMs = found?.mtimeMs ?? 0;
    if (mtimeMs <= clock.wallTime()) this.#unchanged = null;
    else if (this.#unchanged?.mtimeMs !== mtimeMs) this.#unchanged = { mtimeMs, since: clock.now() };
    else if (clock.now() - this.#unchanged.since >= durationMs) await utimes(this.#lock, 0, 0);
  }

  #readOwner(): Promise<string | null> {
    return readFile(this.#owner, 'utf8').catch(() => null);
  }
}
