import { decodeLiveRules } from '../live/live-rules.ts';
import type { Problem } from '../model/problem.ts';
import { fail, type Result } from '../model/result.ts';
import type { LiveRule } from '../model/rule.ts';
import type { ApiResult } from '../ports.ts';
import { textOf } from './answer-text.ts';
import type { ApplyContext } from './context.ts';
import { createGate, type Gate, type Lane } from './gate.ts';
import { createKnownRules, type KnownRules } from './known-rules.ts';
import { backoffMs, kindOf } from './retry.ts';

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
  readonly gate: Gate;
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
  /** Sends a write: counts it, and notices when the server is there again. */
  write(call: (signal: AbortSignal) => Promise<ApiResult>): Promise<ApiResult>;
  /**
   * Reads the rules after this moment; calls at the same time share one request. Waits for a server that is away. For a step of an
   * open gap it is tried as long as the step itself: undoing a gap that may be closed would be a guess.
   */
  freshRules(lane: Lane): Promise<Result<readonly LiveRule[], string>>;
  /** Waits for the next attempt; false when there is none: too many, stopped, or past the bound of a stop. */
  retry(attempt: number, lane: Lane): Promise<boolean>;
  /** The server takes no port rules: no more are sent. */
  noPorts: boolean;
  /** The server refuses collisions, whatever the profile says. */
  collisionsSeen: boolean;
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

  const gate = createGate(clock, context.profile.filter, limits.pace);
  const known = createKnownRules();
  const listed = createFreshReader(() => readRules(session));
  const session: Session = {
    context,
    gate,
    known,
    hard: hard.signal,
    soft: soft.signal,
    problems: [],
    stop,
    stopped: () => reason,
    closeWithinMs: () => stoppedAt + stopBoundMs - closingReserveMs - clock.now(),
    write: async (call) => {
      session.firstWriteAt ??= clock.now();
      gate.sent();
      const answer = await call(hard.signal);
      session.lastAnswerAt = clock.now();
      if (answer.kind === 'lost' ? answer.sent === 'maybe' : answer.status < 300) session.wrote = true;
      return answer;
    },
    freshRules: async (lane) => {
      for (let attempt = 0; ; attempt++) {
        const rules = await listed();
        if (rules.ok || lane === 'normal' || !(await session.retry(attempt, lane))) return rules;
      }
    },
    retry: async (attempt, lane) => {
      const spent = attempt + 1 >= (lane === 'gap' && reason === null ? gapAttempts : limits.attempts);
      if (hard.signal.aborted || (lane === 'normal' && reason !== null) || (reason === null && spent)) return false;
      const signal = lane === 'gap' ? hard.signal : soft.signal;
      await clock.sleep(backoffMs(attempt, clock, lane === 'gap' ? 1000 : 5000), signal);
      await waitForGate(session, lane);
      return !signal.aborted;
    },
    noPorts: false,
    collisionsSeen: false,
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

/** Waits until a write in that lane may be sent; after a stop only as long as the bound allows. */
async function waitForGate(session: Session, lane: Lane): Promise<void> {
  const { clock } = session.context;
  for (let ms = session.gate.waitMs(lane); ms > 0; ms = session.gate.waitMs(lane)) {
    if (lane === 'normal' && session.stopped() !== null) return;
    const leftMs = Math.min(ms, session.closeWithinMs());
    if (leftMs <= 0) return; // closing into a rebuild beats leaving the gap open
    await clock.sleep(leftMs, session.stopped() === null ? session.soft : session.hard);
  }
}

async function readRules(session: Session): Promise<Result<readonly LiveRule[], string>> {
  const { api, clock } = session.context;
  const giveUpAt = clock.now() + outagePatienceMs;
  let outage = false;
  for (let attempt = 0; ; attempt++) {
    const answer = await api.listRules(session.hard);
    const kind = kindOf(answer);
    if (kind === 'success' && answer.kind === 'answer') {
      const rules = decodeLiveRules(answer.body);
      if (rules.ok && outage) noteOutage(session, rules.value.length);
      return rules.ok ? rules : fail(`GET /v0/rules: ${rules.error}`);
    }
    if (answer.kind === 'lost' && answer.code === 'refused') outage = true;
    const patient = outage ? clock.now() < giveUpAt : attempt + 1 < session.context.limits.attempts;
    if (kind === 'unauthorized' || kind === 'broken' || kind === 'refused' || !patient || session.hard.aborted) {
      return fail(textOf(answer, 'GET /v0/rules'));
    }
    await clock.sleep(backoffMs(attempt, clock, 2000), session.hard);
  }
}

/** The server is back and fills its packet filter again; what is created meanwhile may be lost (docs/server.md). */
export function noteOutage(session: Session, rules: number): void {
  const ms = session.gate.rebuild(rules, 'now');
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
function createFreshReader<T>(read: () => Promise<T>): () => Promise<T> {
  let current: Promise<T> | null = null;
  let next: Promise<T> | null = null;
  const start = (): Promise<T> => {
    const mine = read().finally(() => {
      if (current === mine) current = null;
    });
    current = mine;
    return mine;
  };
  return () => {
    if (current === null) return start();
    next ??= current.then(
      () => {
        next = null;
        return start();
      },
      () => {
        next = null;
        return start();
      },
    );
    return next;
  };
}
