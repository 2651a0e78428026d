import type { Lease } from '../../controller/lease.ts';
import { getErrorCode } from '../../model/result.ts';
import type { Clock, Logger } from '../../ports.ts';
import { createQueue } from '../queue.ts';

/** What every lease that is renewed against a store is made with. */
export interface LeaseSettings {
  /** Unique to this process. */
  readonly identity: string;
  /** How long after a renewal others may take it, ms. It is renewed twelve times as often. */
  readonly durationMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called when this replica becomes the writer, or stops being it. */
  readonly onChange: () => void;
  /** Called when another replica took the lease while this one could still write. */
  readonly onOverlap: () => void;
}

/** How often a lease is renewed, ms. */
export function chooseRenewal({ durationMs }: Pick<LeaseSettings, 'durationMs'>): number {
  return Math.floor(durationMs / 12);
}

/** Why a turn came to nothing, for the log, and what to do. */
export class NotRenewed extends Error {
  readonly code: string;

  constructor(code: string, hint: string) {
    super(hint);
    this.code = code;
  }
}

/** How one kind of store takes, keeps and frees a lease. Of its calls only one runs at a time. */
export interface LeaseStore {
  /** One try to take or to keep it. Rejecting counts as not renewed: it is said in the log, and the term goes on running out. */
  turn(tenure: Tenure): Promise<unknown>;
  /** Gives it back, when `held` says that it was still ours; the last call. */
  free(held: boolean): Promise<void>;
  readRecord(): Promise<string | null>;
  /** Writes the record, provided that the lease is still ours: false, or rejecting, when it is not known to be written. */
  writeRecord(text: string, tenure: Tenure): Promise<boolean>;
}

/** Until when a lease is certainly ours, and what follows from that. */
export type Tenure = ReturnType<typeof createTenure>;

function createTenure({ identity, durationMs, clock, logger, onChange, onOverlap }: LeaseSettings) {
  // By the earlier of both clocks: a machine may sleep, and its time may be set.
  let until = { now: 0, wallTime: 0 };
  let held = new AbortController();
  let isWriter = false;
  const leftMs = (): number => Math.max(0, Math.min(until.now - clock.now(), until.wallTime - clock.wallTime()));
  const tenure = {
    /** Who holds the lease as far as is known. */
    holder: null as string | null,
    leftMs,
    /** ms until nothing new is started: closing a gap (10 s) and one request's deadline lie before the end. */
    startMs: () => leftMs() - Math.floor(durationMs / 2),
    /** What is sent must also have been answered or given up before the end. */
    mayWrite: () => leftMs() > durationMs / 4,
    signal: () => held.signal,
    /** Who was found to hold it for `heldMs`, last renewed then (monotonic, ms): another that is silent may be dead. */
    saw(holder: string | null, renewedAt: number, heldMs: number): void {
      tenure.holder = holder !== identity && clock.now() - renewedAt > heldMs / 4 ? null : holder;
    },
    /** It is ours, from before the renewal was sent. */
    renewed(sentAt: Readonly<typeof until>): void {
      tenure.holder = identity;
      until = { now: sentAt.now + durationMs, wallTime: sentAt.wallTime + durationMs };
    },
    /** Nothing is written from now on. */
    end(): void {
      until = { now: 0, wallTime: 0 };
    },
    /** It was found in other hands, or gone. */
    lost(to: 'another' | 'nobody'): void {
      if (to === 'another' && tenure.mayWrite()) onOverlap();
      tenure.end();
      tenure.settle();
    },
    /** Says what has changed; to be called when the term may have begun or ended. */
    settle(): void {
      const now = tenure.startMs() > 0;
      if (now === isWriter) return;
      isWriter = now;
      if (now) held = new AbortController();
      else held.abort();
      const holder = tenure.holder ?? '';
      logger.info(now ? 'This replica writes now' : 'This replica does not write any more', { holder });
      onChange();
    },
  };
  return tenure;
}

/** Keeps a lease renewed in the background until it is released; answers from memory. */
export function keepLease(settings: LeaseSettings, store: LeaseStore): Lease {
  const { clock, identity } = settings;
  const renewMs = chooseRenewal(settings);
  const tenure = createTenure(settings);
  const { startMs, settle } = tenure;
  const stop = new AbortController();
  const oneAtATime = createQueue();
  const contact = followContact(settings);
  let released: Promise<void> | null = null;
  let seen: string | null = null;

  const mayStart = (): boolean => startMs() > 0;
  // Short enough that the end of the term is noticed in time, also while renewing fails or hangs.
  const noticeMs = (): number => (mayStart() ? Math.max(50, startMs()) : renewMs);
  const run = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      const over = new AbortController();
      const noticed = clock.sleep(noticeMs(), over.signal).then(settle);
      await oneAtATime(() => store.turn(tenure)).then(contact.succeeded, contact.failed);
      if (!mayStart()) seen = await store.readRecord().catch(() => null);
      over.abort();
      await noticed;
      await clock.sleep(Math.min(renewMs, noticeMs()), stop.signal);
      settle();
    }
  };
  const running = run();
  const end = async (): Promise<void> => {
    stop.abort();
    await running;
    const wasHeld = tenure.leftMs() > 0;
    tenure.end();
    await oneAtATime(() => store.free(wasHeld));
  };
  const write = (text: string): Promise<boolean> =>
    oneAtATime(async () => mayStart() && (await store.writeRecord(text, tenure))).catch((error: unknown) => {
      contact.failed(error);
      return false;
    });
  return {
    mayStart,
    mayWrite: tenure.mayWrite,
    signal: tenure.signal,
    // The store may still name us after our term: nobody can know that we hold it then.
    holder: () => (tenure.holder === identity && !mayStart() ? null : tenure.holder),
    election: contact.election,
    record: { read: () => oneAtATime(() => store.readRecord()), seen: () => seen, write },
    release: () => (released ??= end()),
  };
}

/** Whether the store can be reached, said in the log once when that changes, not with every try. */
function followContact({ clock, logger }: LeaseSettings) {
  let said: string | null = null;
  let problem: string | null = 'the lease has not been read yet';
  let succeededAt: number | null = null;
  return {
    succeeded(): void {
      if (said !== null) logger.info('The lease can be renewed again');
      [said, problem] = [null, null];
      succeededAt = clock.now();
    },
    failed(error: unknown): void {
      const code = error instanceof Error && error.name === 'TimeoutError' ? 'timeout' : getErrorCode(error);
      const hint = error instanceof NotRenewed ? error.message : 'it is tried again';
      if (code !== said) logger.warn('The lease could not be renewed', { code, hint });
      said = code;
      problem = `the lease cannot be renewed (${code}): ${hint}`;
    },
    election: () => ({ problem, ageMs: succeededAt === null ? null : Math.round(clock.now() - succeededAt) }),
  };
}
