import type { Problem } from '../model/problem.ts';
import { fail, ok, type Result } from '../model/result.ts';
import type { LiveRule } from '../model/rule.ts';
import type { JournalEntry } from '../ports.ts';
import type { ApplyContext } from './context.ts';
import { createKnownRules, type KnownRules } from './known-rules.ts';
import { type ReadContext, readRules } from './read.ts';
import { computeBackoffMs } from './send.ts';
import { createThrottle, type Priority, type Throttle } from './throttle.ts';

/** How long a stop may be put off by closing a gap; after that requests in flight are ended too. */
const stopBoundMs = 10_000;
/** The part of that bound which is kept for the requests themselves. */
const closingReserveMs = 2000;
/** How long a server that refuses connections is waited for. */
const outagePatienceMs = 60_000;
/** Attempts at a step that closes a gap, as long as nothing asks to stop. */
const gapAttempts = 20;

/** What all steps of one apply share. */
export interface Session {
  readonly context: ApplyContext;
  readonly throttle: Throttle;
  readonly known: KnownRules;
  /** Passed to every request; aborts only when the bound after a stop has passed. */
  readonly hard: AbortSignal;
  /** Aborts when no new step may start: stop, total deadline, refused token. */
  readonly soft: AbortSignal;
  readonly problems: Problem[];
  /** No new step starts from now on; open gaps are still closed. */
  stop(reason: StopReason): void;
  stopped(): StopReason | null;
  /** ms that closing a gap may still wait for other reasons; infinite before a stop, negative when it is urgent. */
  closeWithinMs(): number;
  /** How the server is read during this apply. */
  readonly reading: ReadContext;
  /** Reads the rules after this moment; calls at the same time share one request. Waits for a server that is away, as steps do. */
  freshRules(priority: Priority): Promise<Result<readonly LiveRule[], string>>;
  /** Waits for the next attempt; false when there is none: too many, stopped, or past the bound of a stop. */
  retry(attempt: number, priority: Priority): Promise<boolean>;
  /** The server takes no port rules: no more are sent. */
  noPorts: boolean;
  /** The filter was rebuilt during this round: its time was waited for, or the kernel was seen to hold every live rule. */
  rebuilt: 'no' | 'waited' | 'seen';
  /** The server refuses collisions, whatever the profile says. */
  collisionsSeen: boolean;
  /** Then a rule that may be live can be created again: where it is live, the server refuses the copy. */
  refusesCollisions(): boolean;
  /** Writes to the journal. Nothing depends on it: one that cannot be written is logged once. */
  record(entry: JournalEntry): Promise<void>;
  /** ms of the first write sent and the last answer, monotonic; null before. */
  firstWriteAt: number | null;
  lastAnswerAt: number;
  /** A write reached the server, or may have. */
  wrote: boolean;
  /** Releases timers. */
  end(): void;
}

/** Why no new step starts. */
type StopReason = 'asked' | 'deadline' | 'unauthorized';

/** Starts the deadlines of one apply. */
export function startSession(context: ApplyContext): Session {
  const { clock, limits } = context;
  const hard = new AbortController();
  const soft = new AbortController();
  const over = new AbortController();
  let reason: StopReason | null = null;
  let stoppedAt = Number.POSITIVE_INFINITY;

  const stop = (why: StopReason): void => {
    if (reason !== null) return;
    reason = why;
    stoppedAt = clock.now();
    soft.abort();
    void clock.sleep(stopBoundMs, over.signal).then(() => {
      if (!over.signal.aborted) hard.abort();
    });
  };
  const asked = (): void => stop('asked');
  if (context.stop.aborted) asked();
  else context.stop.addEventListener('abort', asked, { once: true });
  void clock.sleep(limits.totalTimeoutMs, over.signal).then(() => {
    if (!over.signal.aborted) stop('deadline');
  });

  const throttle = createThrottle(clock, context.profile.filter, limits.pace, context.filterSlowness);
  const known = createKnownRules();
  const listed = createFreshReader((priority) => listRules(session, priority));
  let journalFailed = false;
  const session: Session = {
    context,
    throttle,
    known,
    hard: hard.signal,
    soft: soft.signal,
    problems: [],
    stop,
    stopped: () => reason,
    closeWithinMs: () => stoppedAt + stopBoundMs - closingReserveMs - clock.now(),
    reading: {
      api: context.api,
      clock,
      logger: context.logger,
      attempts: limits.attempts,
      signal: hard.signal,
      outagePatienceMs,
    },
    freshRules: async (priority) => {
      for (let attempt = 0; ; attempt++) {
        const rules = await listed(priority);
        if (rules.ok || priority === 'normal' || !(await session.retry(attempt, priority))) return rules;
      }
    },
    retry: async (attempt, priority) => {
      const spent = attempt + 1 >= (priority === 'gap' && reason === null ? gapAttempts : limits.attempts);
      if (hard.signal.aborted || (priority === 'normal' && reason !== null) || (reason === null && spent)) return false;
      const signal = priority === 'gap' ? hard.signal : soft.signal;
      await clock.sleep(computeBackoffMs(attempt, clock, priority === 'gap' ? 1000 : 5000), signal);
      await waitForThrottle(session, priority);
      return !signal.aborted;
    },
    noPorts: false,
    rebuilt: 'no',
    collisionsSeen: false,
    refusesCollisions: () => context.profile.refusesCollisions || session.collisionsSeen,
    record: async (entry) => {
      await context.journal?.write(entry).catch(() => {
        if (!journalFailed) context.logger.warn('the journal cannot be written; the apply goes on without it');
        journalFailed = true;
      });
    },
    firstWriteAt: null,
    lastAnswerAt: 0,
    wrote: false,
    end: () => {
      over.abort();
      context.stop.removeEventListener('abort', asked);
    },
  };
  return session;
}

/** Waits until a write in that priority may be sent; after a stop only as long as the bound allows. */
async function waitForThrottle(session: Session, priority: Priority): Promise<void> {
  const { clock } = session.context;
  for (let ms = session.throttle.waitMs(priority); ms > 0; ms = session.throttle.waitMs(priority)) {
    if (priority === 'normal' && session.stopped() !== null) return;
    const leftMs = Math.min(ms, session.closeWithinMs());
    if (leftMs <= 0) return; // closing into a rebuild beats leaving the gap open
    await clock.sleep(leftMs, session.stopped() === null ? session.soft : session.hard);
  }
}

async function listRules(session: Session, priority: Priority): Promise<Result<readonly LiveRule[], string>> {
  // A gap does not wait as long as a server may ask: the step itself does not either.
  const patience = priority === 'gap' ? { longestWaitMs: 1000 } : {};
  const read = await readRules({ ...session.reading, ...patience });
  if (read.ok && read.value.afterOutage) noteOutage(session, read.value.rules.length);
  if (!read.ok && read.error.code === 'unauthorized') session.stop('unauthorized');
  return read.ok ? ok(read.value.rules) : fail(read.error.message);
}

/** The server is back and fills its packet filter again; what is created meanwhile may be lost (docs/reference/server.md). */
export function noteOutage(session: Session, rules: number): void {
  const ms = session.throttle.rebuild(rules, 'now');
  if (ms === 0) return;
  session.context.logger.warn('the server was away; writes wait for its packet filter', { waitMs: Math.round(ms) });
  session.problems.push({
    code: 'server-restarted',
    severity: 'note',
    summary: `The server was away and came back; writes waited ${Math.round(ms / 1000)} s for its packet filter to be rebuilt.`,
    hint: 'Until the filter is rebuilt traffic is not filtered, and rules created meanwhile would be lost there.',
  });
}

/** One request at a time; whoever asks while one is under way gets the next, which starts after the question. */
function createFreshReader<T>(read: (priority: Priority) => Promise<T>): (priority: Priority) => Promise<T> {
  let current: Promise<T> | null = null;
  let next: Promise<T> | null = null;
  const start = (priority: Priority): Promise<T> => {
    next = null;
    const mine = read(priority).finally(() => {
      if (current === mine) current = null;
    });
    current = mine;
    return mine;
  };
  return (priority) => {
    if (current === null) return start(priority);
    const again = (): Promise<T> => start(priority);
    next ??= current.then(again, again);
    return next;
  };
}
