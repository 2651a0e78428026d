import type { Lease, LeaseTerm, LeaseTimes } from '../../controller/lease.ts';
import { trackTerm } from '../../controller/lease.ts';
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

/** Why a turn came to nothing, for the log. */
export class NotRenewed extends Error {
  override readonly name = 'NotRenewed';
  readonly code: string;
  readonly hint: string;

  constructor(code: string, hint: string) {
    super(code);
    this.code = code;
    this.hint = hint;
  }
}

/** How one kind of store takes, keeps and frees a lease. */
export interface LeaseStore {
  /** One try to take or to keep it. Rejecting counts as not renewed: it is said in the log, and the term goes on running out. */
  turn(tenure: Tenure): Promise<void>;
  /** Gives it back, when `held` says that it was still ours; the last call. */
  free(held: boolean): Promise<void>;
}

/** Keeps a lease renewed in the background, every `renewMs`, until it is released; answers from memory. */
export function keepLease(basics: LeaseBasics, renewMs: number, store: LeaseStore): Lease {
  const { clock, times, logger, onChange } = basics;
  const term = trackTerm(clock, times);
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
  let said = '';
  const complain = (error: unknown): void => {
    const fields = { code: codeOf(error), hint: error instanceof NotRenewed ? error.hint : 'it is tried again' };
    if (fields.code !== said) logger.warn('The lease could not be renewed', fields);
    said = fields.code; // once, not with every try
  };
  const turn = (): Promise<void> =>
    store.turn(tenure).then(() => {
      said = '';
    }, complain);
  const running = (async () => {
    while (!stop.signal.aborted) {
      // Short enough that the end of the term is noticed in time, also while renewing fails or hangs.
      const untilMargin = (): number => (writer ? Math.max(50, term.leftMs() - times.marginMs) : renewMs);
      const over = new AbortController();
      const noticed = clock.sleep(untilMargin(), over.signal).then(() => tenure.settle());
      await turn();
      over.abort();
      await noticed;
      await clock.sleep(Math.min(renewMs, untilMargin()), stop.signal);
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
    // The store may still name us after our term: nobody can know that we hold it then.
    holder: () => (tenure.holder === basics.identity && !mayStart() ? null : tenure.holder),
    release() {
      released ??= end();
      return released;
    },
  };
}

function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return 'failed';
  if (error.name === 'TimeoutError') return 'timeout';
  return 'code' in error ? String(error.code) : 'failed';
}
