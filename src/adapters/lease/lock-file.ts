import { readFile, stat, utimes, writeFile } from 'node:fs/promises';
import { lock, unlock } from 'proper-lockfile';
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
 * A lock on one host. The lock is a directory whose time is renewed; `PATH.owner` names the holder and its duration, and is
 * empty once it was given back; `PATH.record` holds the controller's record. Once the time has run out (the process was paused),
 * this process never writes on it again before it has taken the lock anew. A lock that somebody removed is not taken before its
 * holder must have noticed.
 */
export function holdLockFile(settings: LockFileSettings): Lease {
  return keepLease(settings, new LockFileStore(settings));
}

/** Who holds the lock, without taking part; null: nobody does. Rejects where that cannot be seen. */
export async function lookAtLockFile(settings: LockFileSettings): Promise<LeaseHolder | null> {
  const found = await stat(`${settings.path}.lock`).catch(replaceError('ENOENT', null));
  const { name, heldMs } = await readOwner(settings);
  if (found === null || settings.clock.wallTime() - found.mtimeMs > heldMs) return null;
  const kept = openRecordText(`${settings.path}.record`);
  const record = await kept.read().catch(() => null);
  return { name: name || 'an unnamed process', suspended: name !== '' && saysSuspended(record) };
}

/** Who holds the lock, or last held it ('': it was given back), and for how long after a renewal. */
async function readOwner({ path, durationMs }: LockFileSettings) {
  const text = await readFile(`${path}.owner`, 'utf8').catch(replaceError('ENOENT', ''));
  const [, name = '', duration] = /^(.*?)(?: (\d+))?$/s.exec(text) ?? [];
  return { name, heldMs: Math.max(durationMs, Number(duration ?? 0)) };
}

const abandoning = { realpath: false, fs: { rmdir: (_: string, done: () => void) => done() } };

class LockFileStore implements LeaseStore {
  readonly #settings: LockFileSettings;
  readonly #lock: string;
  readonly #record: RecordText;
  #release: (() => Promise<void>) | null = null;
  /** The time that another's lock shows, and since when (monotonic, ms). */
  #seen = { mtimeMs: 0, since: 0 };
  /** When somebody was last seen to hold the lock (monotonic, ms). */
  #heldAt: number | null = null;

  constructor(settings: LockFileSettings) {
    this.#settings = settings;
    this.#lock = `${settings.path}.lock`;
    this.#record = openRecordText(`${settings.path}.record`);
  }

  async turn(tenure: Tenure): Promise<void> {
    if (this.#release === null) await this.#acquire(tenure);
    // Paused for too long: the lock may have been taken in the meantime.
    else if (tenure.leftMs() === 0) await this.free();
    else await this.#confirm(tenure);
  }

  async free(): Promise<void> {
    const { path } = this.#settings;
    const to = this.#takerOf((await this.#readOwner()).name);
    const release = this.#release;
    this.#release = null;
    if (release === null) return;
    // Taken in the meantime: it stays, and is renewed no more.
    if (to === 'another') return await unlock(path, abandoning).catch(() => undefined);
    await writeFile(`${path}.owner`, '').catch(() => undefined); // then others wait for it to run out
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
    const { path, clock, identity, durationMs } = this.#settings;
    const { name, heldMs } = await this.#readOwner();
    if (name !== '' && (await this.#mayBeHeld(heldMs))) return;
    const sentAt = { now: clock.now(), wallTime: clock.wallTime() };
    const taken = await this.#take(tenure, heldMs);
    if (taken === null) return;
    try {
      await writeFile(`${path}.owner`, `${identity} ${durationMs}`);
    } catch (error) {
      await taken().catch(() => undefined); // it goes stale by itself
      throw error;
    }
    this.#release = taken;
    this.#heldAt = null;
    tenure.renewed(sentAt);
  }

  /** Whether the lock is gone though somebody held it a moment ago and did not give it back. */
  async #mayBeHeld(heldMs: number): Promise<boolean> {
    if (this.#heldAt === null || this.#settings.clock.now() - this.#heldAt >= heldMs) return false;
    return (await stat(this.#lock).catch(() => null)) === null;
  }

  /** Takes the lock; null: somebody else holds it, or held it less than `heldMs` ago. */
  async #take(tenure: Tenure, heldMs: number): Promise<(() => Promise<void>) | null> {
    const { path } = this.#settings;
    try {
      return await lock(path, {
        realpath: false,
        stale: heldMs,
        update: chooseRenewal(this.#settings),
        onCompromised: async () => {
          this.#release = null;
          tenure.lost(this.#takerOf((await this.#readOwner()).name));
        },
      });
    } catch (error) {
      const code = getErrorCode(error);
      if (code !== 'ELOCKED') throw new NotRenewed(code, `the lock file ${path} cannot be used`);
      await this.#standBy(tenure, heldMs);
      return null;
    }
  }

  /** The library renews the directory's time; what the file system shows is what other replicas go by. */
  async #confirm({ renewed, lost }: Tenure): Promise<void> {
    const { clock, identity } = this.#settings;
    const now = clock.now();
    const wallTime = clock.wallTime();
    const found = await stat(this.#lock).catch(() => null);
    const { name } = await this.#readOwner();
    if (found === null || name !== identity) {
      this.#heldAt = now; // it was ours until now, and is waited for as if it were another's
      return lost(this.#takerOf(name));
    }
    const age = Math.max(0, wallTime - found.mtimeMs);
    renewed({ now: now - age, wallTime: wallTime - age });
  }

  /** A lock from the future (the clock was set back) that nobody renews for its whole duration is made to look stale. */
  async #standBy(tenure: Tenure, heldMs: number): Promise<void> {
    const { clock } = this.#settings;
    const now = clock.now();
    this.#heldAt = now;
    const { mtimeMs } = await stat(this.#lock).catch(() => ({ mtimeMs: 0 }));
    if (this.#seen.mtimeMs !== mtimeMs) this.#seen = { mtimeMs, since: now };
    const { name } = await this.#readOwner();
    tenure.lost(this.#takerOf(name));
    tenure.saw(name || null, this.#seen.since, heldMs);
    if (mtimeMs > clock.wallTime() && now - this.#seen.since >= heldMs) await utimes(this.#lock, 0, 0);
  }

  #takerOf(name: string): 'another' | 'nobody' {
    return name === '' || name === this.#settings.identity ? 'nobody' : 'another';
  }

  #readOwner(): ReturnType<typeof readOwner> {
    return readOwner(this.#settings).catch(() => ({ name: '', heldMs: this.#settings.durationMs }));
  }
}
