import type { Lease, LeaseTerm, LeaseTimes } from '../../controller/lease.ts';
import { trackTerm } from '../../controller/lease.ts';
import { getErrorCode } from '../../model/result.ts';
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
  /** Called when another replica took the lease while this one could still write. */
  readonly onOverlap: () => void;
}

/** What the store and the renewal share. */
export interface Tenure {
  readonly term: LeaseTerm;
  /** Who holds the lease as far as is known, for people. */
  holder: string | null;
  /** The lease was found in other hands, or gone: nothing is written from now on. */
  lost(to: 'another' | 'nobody'): void;
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

/** How one kind of store takes, keeps and frees a lease. Of its calls only one runs at a time. */
export interface LeaseStore {
  /** One try to take or to keep it. Rejecting counts as not renewed: it is said in the log, and the term goes on running out. */
  turn(tenure: Tenure): Promise<void>;
  /** Gives it back, when `held` says that it was still ours; the last call. */
  free(held: boolean): Promise<void>;
  readRecord(): Promise<string | null>;
  /** Writes the record, provided that the lease is still ours: false, or rejecting, when it is not known to be written. */
  writeRecord(text: string, tenure: Tenure): Promise<boolean>;
}

/** Keeps a lease renewed in the background, every `renewMs`, until it is released; answers from memory. */
export function keepLease(basics: LeaseBasics, renewMs: number, store: LeaseStore): Lease {
  const { clock, times } = basics;
  const tenure = createTenure(basics);
  const { term, mayStart, mayWrite, settle } = tenure;
  const stop = new AbortController();
  const oneAtATime = createQueue();
  const contact = followContact(basics);
  let released: Promise<void> | null = null;

  // Short enough that the end of the term is noticed in time, also while renewing fails or hangs.
  const untilMargin = (): number => (mayStart() ? Math.max(50, term.leftMs() - times.marginMs) : renewMs);
  const running = repeat(async () => {
    const over = new AbortController();
    const noticed = clock.sleep(untilMargin(), over.signal).then(settle);
    await oneAtATime(() => store.turn(tenure)).then(contact.succeeded, contact.failed);
    over.abort();
    await noticed;
    await clock.sleep(Math.min(renewMs, untilMargin()), stop.signal);
    settle();
  }, stop.signal);
  const end = async (): Promise<void> => {
    stop.abort();
    await running;
    const wasHeld = term.leftMs() > 0;
    term.lost();
    await oneAtATime(() => store.free(wasHeld));
  };
  const writeRecord = (text: string): Promise<boolean> =>
    oneAtATime(async () => mayStart() && (await store.writeRecord(text, tenure))).catch((error: unknown) => {
      contact.failed(error);
      return false;
    });
  return {
    mayStart,
    mayWrite,
    signal: tenure.signal,
    // The store may still name us after our term: nobody can know that we hold it then.
    holder: () => (tenure.holder === basics.identity && !mayStart() ? null : tenure.holder),
    election: contact.election,
    record: { read: () => oneAtATime(() => store.readRecord()), write: writeRecord },
    release() {
      released ??= end();
      return released;
    },
  };
}

interface WriterTenure extends Tenure, Pick<Lease, 'mayStart' | 'mayWrite' | 'signal'> {
  /** To be called when the term may have begun or ended. */
  readonly settle: () => void;
}

function createTenure({ clock, times, logger, onChange, onOverlap }: LeaseBasics): WriterTenure {
  const term = trackTerm(clock, times);
  let held = new AbortController();
  let isWriter = false;
  const mayStart = (): boolean => term.leftMs() > times.marginMs;
  // What is sent must also have been answered or given up before the lease ends.
  const mayWrite = (): boolean => term.leftMs() > times.marginMs / 2;
  const settle = (): void => {
    const now = mayStart();
    if (now === isWriter) return;
    isWriter = now;
    if (now) held = new AbortController();
    else held.abort();
    const holder = tenure.holder ?? '';
    logger.info(now ? 'This replica writes now' : 'This replica does not write any more', { holder });
    onChange();
  };
  const lost: Tenure['lost'] = (to) => {
    if (to === 'another' && mayWrite()) onOverlap();
    term.lost();
    settle();
  };
  const tenure: WriterTenure = { term, holder: null, lost, settle, mayStart, mayWrite, signal: () => held.signal };
  return tenure;
}

async function repeat(work: () => Promise<void>, stop: AbortSignal): Promise<void> {
  while (!stop.aborted) await work();
}

/** Runs pieces of work one after the other, in the order in which they are asked for. */
function createQueue(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const next = last.then(work);
    last = next.catch(() => undefined);
    return next;
  };
}

interface Contact {
  readonly succeeded: () => void;
  readonly failed: (error: unknown) => void;
  readonly election: Lease['election'];
}

/** Whether the store can be reached, said in the log once when that changes, not with every try. */
function followContact({ clock, logger }: LeaseBasics): Contact {
  let said: string | null = null;
  let problem: string | null = 'the lease has not been read yet';
  let succeededAt: number | null = null;
  return {
    succeeded() {
      if (said !== null) logger.info('The lease can be renewed again');
      said = null;
      problem = null;
      succeededAt = clock.now();
    },
    failed(error) {
      const code = codeOf(error);
      const hint = error instanceof NotRenewed ? error.hint : 'it is tried again';
      if (code !== said) logger.warn('The lease could not be renewed', { code, hint });
      said = code;
      problem = `the lease cannot be renewed (${code}): ${hint}`;
    },
    election: () => ({ problem, ageMs: succeededAt === null ? null : Math.round(clock.now() - succeededAt) }),
  };
}

function codeOf(error: unknown): string {
  return error instanceof Error && error.name === 'TimeoutError' ? 'timeout' : getErrorCode(error);
}
