import type { Lease, LeaseTerm, LeaseTimes } from '../../controller/lease.ts';
import { leaseTerm } from '../../controller/lease.ts';
import type { Clock, Logger } from '../../ports.ts';

/** What every lease that is renewed against a store is made with. */
export interface LeaseBasics {
  /** Unique to this process. */
  readonly identity: string;
  readonly times: LeaseTimes;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called when this replica becomes the writer, or stops being it. */
  readonly onChange: () => void;
}

/** What the store and the renewal share. */
export interface Tenure {
  readonly term: LeaseTerm;
  /** Who holds the lease as far as is known, for people. */
  holder: string | null;
  /** To be called when the term may have ended outside of a turn. */
  settle(): void;
}

/** How one kind of store takes, keeps and frees a lease. */
export interface LeaseStore {
  /** One try to take or to keep it. Rejecting counts as not renewed: the term goes on running out. */
  turn(tenure: Tenure): Promise<void>;
  /** Gives it back, when `held` says that it was still ours; the last call. */
  free(held: boolean): Promise<void>;
}

/** Keeps a lease renewed in the background, every `renewMs`, until it is released; answers from memory. */
export function renewedLease(basics: LeaseBasics, renewMs: number, store: LeaseStore): Lease {
  const { clock, times, logger, onChange } = basics;
  const term = leaseTerm(clock, times);
  const stop = new AbortController();
  let held = new AbortController();
  let writer = false;
  let released: Promise<void> | null = null;

  const mayStart = (): boolean => term.leftMs() > times.marginMs;
  const tenure: Tenure = {
    term,
    holder: null,
    settle() {
      const now = mayStart();
      if (now === writer) return;
      writer = now;
      if (now) held = new AbortController();
      else held.abort();
      const holder = tenure.holder ?? '';
      logger.info(now ? 'This replica writes now' : 'This replica does not write any more', { holder });
      onChange();
    },
  };
  const running = (async () => {
    while (!stop.signal.aborted) {
      await store.turn(tenure).catch((error: unknown) => {
        const code = error instanceof Error && 'code' in error ? String(error.code) : 'failed';
        logger.warn('The lease could not be renewed', { code });
      });
      tenure.settle();
      // Short enough that the end of the term is noticed in time, also when renewing fails.
      const untilMargin = writer ? Math.max(50, term.leftMs() - times.marginMs) : renewMs;
      await clock.sleep(Math.min(renewMs, untilMargin), stop.signal);
      tenure.settle();
    }
  })();
  const end = async (): Promise<void> => {
    stop.abort();
    await running;
    const wasHeld = term.leftMs() > 0;
    term.lost();
    await store.free(wasHeld);
  };
  return {
    mayStart,
    // What is sent must also have been answered or given up before the lease ends.
    mayWrite: () => term.leftMs() > times.marginMs / 2,
    signal: () => held.signal,
    holder: () => tenure.holder,
    release() {
      released ??= end();
      return released;
    },
  };
}
