import { makeNote, type Problem } from '../model/problem.ts';
import { fail, getErrorCode, ok, type Result } from '../model/result.ts';
import type { LiveRule } from '../model/rule.ts';
import { shareRuns } from '../model/share-runs.ts';
import type { JournalEntry } from '../ports.ts';
import type { ApplyContext } from './context.ts';
import { createKnownRules } from './known-rules.ts';
import { type ReadContext, readRules } from './read.ts';
import { computeBackoffMs } from './send.ts';
import { createThrottle, type Priority } from './throttle.ts';

/** How long a stop may be put off by closing a gap; after that requests in flight are ended too. */
const stopBoundMs = 10_000;
/** The part of that bound which is kept for the requests themselves. */
const closingReserveMs = 2000;
/** How long a server that refuses connections is waited for. */
const outagePatienceMs = 60_000;
/** Attempts at a step that closes a gap, as long as nothing asks to stop. */
const gapAttempts = 20;

type StopReason = 'asked' | 'deadline' | 'unauthorized';

/** What all steps of one apply share; its deadlines begin at once. */
export class Session {
  readonly context: ApplyContext;
  readonly throttle: ReturnType<typeof createThrottle>;
  readonly known = createKnownRules();
  readonly problems: Problem[] = [];
  /** How the server is read during this apply. */
  readonly reading: ReadContext;
  /** The server takes no port rules: no more are sent. */
  noPorts = false;
  /** The filter was rebuilt during this round: its time was waited for, or the kernel was seen to hold every live rule. */
  rebuilt: 'no' | 'waited' | 'seen' = 'no';
  /** The server refuses collisions, whatever the profile says. */
  collisionsSeen = false;
  /** ms of the first write sent and the last answer, monotonic; null before. */
  firstWriteAt: number | null = null;
  lastAnswerAt = 0;
  /** A write reached the server, or may have. */
  wrote = false;
  /** Why no new step may start; changed by `stop` alone. */
  stopped: StopReason | null = null;
  readonly #hard = new AbortController();
  readonly #soft = new AbortController();
  /** Passed to every request; aborts only when the bound after a stop has passed. */
  readonly hard: AbortSignal = this.#hard.signal;
  /** Aborts when no new step may start: stop, total deadline, refused token. */
  readonly soft: AbortSignal = this.#soft.signal;
  readonly #over = new AbortController();
  readonly #listRules = shareRuns((priority: Priority) => this.#readRules(priority));
  #stoppedAt = Number.POSITIVE_INFINITY;
  #journalFailed = false;

  constructor(context: ApplyContext) {
    const { api, clock, logger, limits, profile, stop } = context;
    this.context = context;
    this.throttle = createThrottle(clock, profile.filter, limits.pace, context.enforcement?.learnt?.slowness);
    this.reading = { api, clock, logger, attempts: limits.attempts, signal: this.hard, outagePatienceMs };
    if (stop.aborted) this.stop('asked');
    else stop.addEventListener('abort', () => this.stop('asked'), { signal: this.#over.signal });
    this.#after(limits.totalTimeoutMs, () => this.stop('deadline'));
  }

  /** No new step starts from now on; open gaps are still closed. */
  stop(reason: StopReason): void {
    if (this.stopped !== null) return;
    this.stopped = reason;
    this.#stoppedAt = this.context.clock.now();
    this.#soft.abort();
    this.#after(stopBoundMs, () => this.#hard.abort());
  }

  /** ms that closing a gap may still wait for other reasons; infinite before a stop, negative when it is urgent. */
  closeWithinMs(): number {
    return this.#stoppedAt + stopBoundMs - closingReserveMs - this.context.clock.now();
  }

  /** Where the server does, a rule that may be live can be created again: where it is live, the server refuses the copy. */
  refusesCollisions(): boolean {
    return this.context.profile.refusesCollisions || this.collisionsSeen;
  }

  /** Reads the rules after this moment; calls at the same time share one request. Waits for a server that is away, as steps do. */
  async freshRules(priority: Priority): Promise<Result<readonly LiveRule[], string>> {
    for (let attempt = 0; ; attempt++) {
      const rules = await this.#listRules(priority);
      if (rules.ok || priority === 'normal' || !(await this.retry(attempt, priority))) return rules;
    }
  }

  /** Waits for the next attempt; false when there is none: too many, stopped, or past the bound of a stop. */
  async retry(attempt: number, priority: Priority): Promise<boolean> {
    const { clock, limits } = this.context;
    const isStopped = this.stopped !== null;
    const spent = attempt + 1 >= (priority === 'gap' && !isStopped ? gapAttempts : limits.attempts);
    if (this.hard.aborted || (priority === 'normal' && isStopped) || (!isStopped && spent)) return false;
    const signal = priority === 'gap' ? this.hard : this.soft;
    await clock.sleep(computeBackoffMs(attempt, clock, priority === 'gap' ? 1000 : 5000), signal);
    await this.#waitForThrottle(priority);
    return !signal.aborted;
  }

  /** Writes to the journal. Nothing depends on it: one that cannot be written is logged once. */
  async record(entry: JournalEntry): Promise<void> {
    const { journal, logger } = this.context;
    await journal?.write(entry).catch((error: unknown) => {
      const where = { path: journal.path, code: getErrorCode(error) };
      if (!this.#journalFailed) logger.warn('the journal cannot be written; the apply goes on without it', where);
      this.#journalFailed = true;
    });
  }

  /** The server is back and fills its packet filter again; what is created meanwhile may be lost (docs/reference/server.md). */
  noteOutage(rules: number): void {
    const ms = this.throttle.rebuild(rules, 'now');
    if (ms === 0) return;
    this.context.logger.warn('the server was away; writes wait for its packet filter', { waitMs: Math.round(ms) });
    const waited = `writes waited ${Math.round(ms / 1000)} s for its packet filter to be rebuilt`;
    const hint =
      'Until the filter is rebuilt traffic is not filtered, and rules created meanwhile would be lost there.';
    this.problems.push(makeNote('server-restarted', `The server was away and came back; ${waited}.`, hint));
  }

  /** Releases timers, and listens to no stop any more. */
  end(): void {
    this.#over.abort();
  }

  #after(ms: number, act: () => void): void {
    void this.context.clock.sleep(ms, this.#over.signal).then(() => {
      if (!this.#over.signal.aborted) act();
    });
  }

  /** Waits until a write in that priority may be sent; after a stop only as long as the bound allows. */
  async #waitForThrottle(priority: Priority): Promise<void> {
    for (let ms = this.throttle.waitMs(priority); ms > 0; ms = this.throttle.waitMs(priority)) {
      if (priority === 'normal' && this.stopped !== null) return;
      const leftMs = Math.min(ms, this.closeWithinMs());
      if (leftMs <= 0) return; // closing into a rebuild beats leaving the gap open
      await this.context.clock.sleep(leftMs, this.stopped === null ? this.soft : this.hard);
    }
  }

  async #readRules(priority: Priority): Promise<Result<readonly LiveRule[], string>> {
    // A gap does not wait as long as a server may ask: the step itself does not either.
    const read = await readRules({ ...this.reading, ...(priority === 'gap' ? { longestWaitMs: 1000 } : {}) });
    if (read.ok && read.value.afterOutage) this.noteOutage(read.value.rules.length);
    if (!read.ok && read.error.code === 'unauthorized') this.stop('unauthorized');
    return read.ok ? ok(read.value.rules) : fail(read.error.message);
  }
}
