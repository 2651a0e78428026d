import { boundOpenUntil } from '../apply/outcome.ts';
import type { SourceReading } from '../ports.ts';
import { pickInterval } from './backoff.ts';
import { createConditions, shortenRevision } from './conditions.ts';
import { Leadership } from './leadership.ts';
import { describeStandby } from './lease.ts';
import type { LoopParts } from './loop-parts.ts';
import { createAnnouncer } from './observer.ts';
import { describeConditions, isInForce, type PassEnding, showWorse, type Verdict } from './pass-ending.ts';
import { logPass } from './pass-log.ts';
import { viewRecord } from './record.ts';
import { explainSourceError, type RevisionSelection } from './revision-selection.ts';
import { nothingInForce, type Status, viewPass } from './status.ts';
import { StatusBoard } from './status-board.ts';
import { makeAgenda, runBack, runRecorded, runWithTimes } from './times.ts';
import type { Trigger } from './trigger.ts';

// A pass that shows no progress for this long hangs: no request, gap, wait for the filter or Git call takes so long.
const stuckMs = 600_000;

/** A source has so long to answer though something else is due; longer where the last reading was cut off for that. */
const leastReadMs = { first: 800, again: 5000 };

/** A running loop: one target, one pass at a time. Nothing happens before `run`. */
export class Loop {
  readonly #parts: LoopParts;
  readonly #board: StatusBoard;
  readonly #announce: ReturnType<typeof createAnnouncer>;
  /** Null while another replica holds the lease. */
  #lead: Leadership | null = null;
  /** The time on the wall at which it looks again in any case (ms since 1970), as of the last pass. */
  #wakeAt = Number.POSITIVE_INFINITY;
  /** The last reading was cut off. */
  #isLate = false;
  /** The last try to take a revision back came through. */
  #isBack = false;

  constructor(parts: LoopParts) {
    this.#parts = parts;
    this.#board = new StatusBoard(parts);
    this.#announce = createAnnouncer(parts.notify);
  }

  status(): Status {
    const { lease, degraded, tokenExpiresAt, settings, store } = this.#parts;
    const { status } = this.#board;
    const isWriter = lease.mayStart();
    const others = isWriter || lease.holder() === null ? null : store.peek?.();
    return {
      ...status,
      ...(others && { revisions: { ...status.revisions, ...viewRecord(others), ...nothingInForce } }),
      role: isWriter ? 'writer' : 'standby',
      holder: lease.holder(),
      suspended: settings().suspended,
      degraded: degraded(),
      tokenExpiresAt: tokenExpiresAt(),
    };
  }

  /** Liveness: the loop did something lately. It looks once an interval, and a reload may change that. */
  isAlive(): boolean {
    const { clock, settings } = this.#parts;
    return clock.now() - this.#board.progressAt < stuckMs + settings().intervalMs;
  }

  /** Readiness: this replica takes part in the election, and either stands by or has judged a pass. */
  isReady(): boolean {
    const { passes } = this.#board.status;
    const { lease } = this.#parts;
    return lease.election().problem === null && (passes.length > 0 || !lease.mayStart());
  }

  /** Runs until stopped, then ends after the step in flight and the open gaps; with `once` until the first pass has been judged. */
  async run(once: boolean): Promise<Verdict> {
    const { stop, triggers: wakes } = this.#parts;
    stop.addEventListener('abort', () => wakes.wake('stop'), { once: true });
    let triggers: ReadonlySet<Trigger> = new Set<Trigger>(['start']);
    let verdict: Verdict = { kind: 'held', reason: 'Stopped', message: 'stopped before a pass' };
    while (!stop.aborted) {
      const { waitMs, judged, unsettled: again } = await this.#turn(triggers);
      if (judged !== null) verdict = judged;
      this.#board.touch();
      // After both another pass follows by itself. The command may have confirmed it before this turn was over.
      const isOpen = judged === null || judged.reason === 'Settling' || judged.reason === 'AwaitingConfirmation';
      if (once && !isOpen && this.#board.status.confirmBy === null && !this.#isLate && !this.#isBetween(judged)) break;
      const isRetry = (this.#lead?.backoff.failures ?? 0) > 0;
      const next = await wakes.next(waitMs, isRetry ? 'retry' : 'interval', again ? undefined : this.#wakeAt);
      triggers = again ? new Set([...triggers, ...next].filter((one) => one !== 'interval')) : next;
    }
    await this.#parts.lease.release();
    return verdict;
  }

  /** Whether a revision was taken back for which nothing is open, or will be soon, and a newer one follows. */
  #isBetween({ reason }: Verdict): boolean {
    const { record, takenBack = null } = this.#lead ?? {};
    const { observed } = this.#board.status.revisions;
    if (!record || reason !== 'NotConfirmed' || observed === null || record.givenUp.includes(observed)) return false;
    return takenBack === null || (this.#isBack && record.openUntil > this.#parts.clock.wallTime());
  }

  /** Who leads: null while another replica does. With each lease leading begins anew, from the lease's record. */
  async #takeLead(): Promise<Leadership | null> {
    const { lease, store, logger, badSettings } = this.#parts;
    const signal = lease.signal();
    if (!lease.mayStart() || signal.aborted) {
      [this.#lead, this.#wakeAt] = [null, Number.POSITIVE_INFINITY];
      this.#board.standBy(describeStandby(lease), badSettings());
      return null;
    }
    if (this.#lead?.signal === signal) return this.#lead;
    this.#lead = new Leadership(this.#parts, await store.load(), this.#board, signal);
    const { appliedRevision: applied, inForceRevision, drift } = this.#lead.record;
    this.#board.revisions(viewRecord(this.#lead.record));
    this.#board.update({ drift });
    this.#board.set(createConditions(0).Ready); // no longer what was said of the holder before
    if (inForceRevision !== null) logger.info('The record was taken up', { applied, inForce: inForceRevision });
    return this.#lead;
  }

  /** Looks at the source, chooses what is to be in effect, converges, judges. `unsettled`: that waits until the content stands still. */
  async #turn(triggers: ReadonlySet<Trigger>) {
    const { clock, settings } = this.#parts;
    const interval = pickInterval(settings().intervalMs, clock.random());
    await this.#takeLead(); // said before the source is asked, which may take long
    if ((['settings', 'signal', 'token'] as const).some((asked) => triggers.has(asked)))
      this.#lead?.runner.gate.forgetStall();
    const reading = await this.#observe();
    if (this.#parts.stop.aborted) return { waitMs: 0, judged: null };
    const lead = await this.#takeLead();
    if (lead === null) return { waitMs: interval, judged: null };
    const selection = await this.#choose(lead, reading);
    this.#board.touch();
    if (selection.settlingMs !== null) this.#reconciling('Settling', 'waiting until the content is stable');
    if (selection.early !== undefined) void this.#parts.prepare(selection.early);
    const revision = selection.back ?? selection.content?.revision;
    if (revision !== undefined && !lead.backoff.begin(revision, selection.complaint !== null, triggers))
      return { waitMs: Math.min(selection.settlingMs ?? interval, lead.backoff.leftMs()), judged: null };
    const started = { triggers, started: clock.wallTime(), from: clock.now() };
    const end = await this.#converge(lead, selection);
    if (end === null) return { waitMs: selection.settlingMs ?? 0, judged: null, unsettled: true };
    const done = await this.#conclude(lead, { ...started, ...end });
    return { ...done, waitMs: Math.min(done.waitMs, selection.settlingMs ?? done.waitMs) };
  }

  /** Chooses what is to be in effect. What is due does not wait until the newest content stands still. */
  async #choose(lead: Leadership, reading: SourceReading): Promise<RevisionSelection> {
    const { observed } = this.#board.status.revisions;
    const [selection] = await this.#ask((until) =>
      lead.choose(reading, observed, this.#isLate, AbortSignal.any([until, lead.signal])),
    );
    const isDue = selection.complaint === null && this.#wakeAt <= this.#parts.clock.wallTime();
    return isDue ? { ...selection, content: selection.content ?? lead.history.lastGood } : selection;
  }

  /** Asks the source, as long as nothing else is due: a server that hangs must not keep a rule from ending, or a revision in force. */
  async #ask<T>(ask: (until: AbortSignal) => Promise<T>): Promise<readonly [answer: T, isCut: boolean]> {
    const { stop } = this.#parts;
    const [over, done] = [new AbortController(), new AbortController()];
    const asked = ask(AbortSignal.any([stop, over.signal]));
    void this.#untilDue(AbortSignal.any([stop, done.signal])).then(() => over.abort());
    const answer = await asked;
    done.abort(); // which aborts the other one later
    return [answer, over.signal.aborted];
  }

  /** Waits until something else is due than to read the source, and for a little while at least; or until the signal aborts. */
  async #untilDue(signal: AbortSignal): Promise<void> {
    const { clock, lease } = this.#parts;
    const lead = this.#lead;
    const leastMs = leastReadMs[this.#isLate ? 'again' : 'first'];
    while (lead === null && !lease.mayStart() && !signal.aborted) await clock.sleep(1000, signal);
    const wakeAt = lead?.history.lastGood ? this.#wakeAt : Number.POSITIVE_INFINITY;
    const dueMs = Math.min(wakeAt, lead?.dueAt ?? 0) - clock.wallTime();
    await clock.sleep(Math.min(stuckMs, Math.max(leastMs, dueMs)), signal);
  }

  async #observe(): Promise<SourceReading> {
    const { clock, observer, logger, source, stop, triggers } = this.#parts;
    const from = clock.now();
    const [reading, isCut] = await this.#ask((until) =>
      source.read(until, this.#lead?.record.firstSeen).catch((error: unknown) => explainSourceError(error, stop)),
    );
    this.#isLate = isCut && reading.content === null;
    observer.phaseEnded('source', clock.now() - from);
    this.#board.touch();
    if (this.#isLate) triggers.wake('retry'); // after this turn, which is for what is due
    if (this.#isLate) return { content: this.#lead?.history.lastGood ?? null, problems: [] };
    const observed = reading.content?.revision ?? reading.observed;
    if (observed === undefined) return reading;
    if (observed !== this.#board.status.revisions.observed) {
      this.#lead?.runner.gate.forgetStall();
      logger.info('A revision was observed', { revision: observed });
    }
    this.#board.revisions({ observed });
    return reading;
  }

  /**
   * Runs the pass, and again with the last good revision when the new one has errors; or takes back what nobody confirmed. Null: no
   * revision is good and stable yet.
   */
  async #converge(lead: Leadership, { content, complaint, back }: RevisionSelection) {
    const { lastGood } = lead.history;
    if (back !== undefined) {
      const run = await runBack(lead, back);
      this.#isBack = isInForce(run.verdict);
      const { clock, settings } = this.#parts;
      const now = clock.wallTime();
      const waitMs = Math.max(0, boundOpenUntil(lead.record.openUntil, now, settings().requestTimeoutMs) - now);
      const triedBack = await lead.triedBack(back, run, waitMs);
      // Looks again once no request of it is open, or at once: a newer revision may wait.
      const verdict = this.#isBack ? { ...run.verdict, waitMs } : run.verdict;
      return { ...run, complaint: triedBack, verdict };
    }
    if (content === null) {
      const beside = complaint && (await runRecorded(lead, []));
      return complaint && { content, verdict: complaint, complaint, beside, outcomes: beside?.outcomes ?? [] };
    }
    this.#reconciling('Progressing', `working on ${shortenRevision(content.revision)}`);
    if (complaint === null) this.#board.revisions({ attempted: content.revision });
    const run = await runWithTimes(lead, content, this.#parts);
    if (run.verdict.reason !== 'ManifestsInvalid' || lastGood === null || content.revision === lastGood.revision)
      return { ...run, content, ...(complaint === null ? {} : { complaint }) };
    const fallback = await runWithTimes(lead, lastGood, this.#parts);
    return { ...fallback, complaint: { ...run.verdict, revision: content.revision }, content: lastGood };
  }

  async #conclude(leadership: Leadership, ended: PassEnding) {
    const { clock, settings, observer, logger, badSettings } = this.#parts;
    const { backoff, record, base } = leadership;
    const end = await leadership.ended(ended);
    const verdict = showWorse(end);
    // After the wait and all at once, so that nobody sees one revision in effect beside what is said of another.
    if (end.result) this.#board.passed(end.result, end, leadership.runner.gate.fights);
    const revisions = viewRecord(leadership.record);
    this.#board.revisions(revisions);
    if (verdict.kind === 'good') this.#board.update({ lastSuccessAt: clock.wallTime() });
    const agenda = makeAgenda(end, leadership.base, clock.wallTime(), settings().noticeMs);
    this.#board.update({ ...agenda.view, confirmBy: leadership.confirmBy });
    const tried = [end.complaint, end.verdict, end.beside?.verdict].find((one) => one?.kind === 'transient');
    backoff.ended(tried ?? verdict);
    const view = viewPass(end, verdict, clock);
    this.#board.update({ passes: [view, ...this.#board.status.passes].slice(0, 20) });
    const revision = end.content?.revision ?? null;
    const { failures } = backoff;
    this.#board.set(...describeConditions(verdict, { revision, failures, badSettings: badSettings() }));
    logPass(logger, view);
    observer.passEnded(view);
    const isNew = record.appliedRevision !== null && record.appliedRevision !== revisions.applied;
    const soon = await leadership.announce(agenda.soon, base);
    this.#announce({ ...end, complaint: verdict }, { isNew, soon, status: this.status() });
    this.#wakeAt = agenda.wakeAt;
    const interval = pickInterval(Math.min(settings().intervalMs, agenda.mostMs), clock.random());
    const retryMs = backoff.failures > 0 ? backoff.leftMs() : interval;
    // A newer one came while this one waited to be confirmed.
    const isBehind = isInForce(verdict) && revision !== this.#board.status.revisions.observed;
    return { waitMs: isBehind ? 0 : Math.min(interval, retryMs, end.verdict.waitMs ?? interval), judged: verdict };
  }

  #reconciling(reason: 'Settling' | 'Progressing', message: string): void {
    this.#board.set({ type: 'Reconciling', status: 'True', reason, message });
  }
}
