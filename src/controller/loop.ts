import type { DesiredState } from '../model/state.ts';
import type { PassResult } from '../pass/pass.ts';
import type { SourceContent, SourceReading } from '../ports.ts';
import { Announcer } from './announcer.ts';
import { Backoff } from './backoff.ts';
import { shortenRevision } from './conditions.ts';
import type { Verdict } from './failure.ts';
import { describeConditions, isInForce, mayMend } from './failure.ts';
import type { Loop, LoopParts } from './loop-parts.ts';
import type { PassEnding, PublishableRun } from './pass-ending.ts';
import { countLiveRules, viewPass } from './pass-ending.ts';
import { logInternalError, logPass } from './pass-log.ts';
import { PassRunner } from './pass-runner.ts';
import type { LoopRecord } from './record.ts';
import { emptyRecord } from './record.ts';
import type { RevisionSelection } from './revision-selection.ts';
import { SourceHistory } from './revision-selection.ts';
import { pickInterval } from './schedule.ts';
import { explainSourceError } from './source-verdict.ts';
import type { Status } from './status.ts';
import { createStatus } from './status.ts';
import { StatusBoard } from './status-board.ts';
import type { Trigger } from './trigger.ts';

export type { Loop, LoopParts, LoopSettings, PassRequest } from './loop-parts.ts';

/**
 * How one turn went: when to look again, and the verdict when there was something to judge. `unsettled`: it will be judged
 * when the content has stood still, for the same triggers.
 */
interface Turned {
  readonly waitMs: number;
  readonly judged: Verdict | null;
  readonly unsettled?: boolean;
}

// A pass that shows no progress for this long hangs: no request, gap, wait for the filter or Git call takes so long.
const stuckMs = 600_000;

const askedAnew: readonly Trigger[] = ['settings', 'signal', 'token'];

/** Builds the loop; nothing happens before `run`. */
export function createLoop(parts: LoopParts): Loop {
  return new ControlLoop(parts);
}

class ControlLoop implements Loop {
  readonly #parts: LoopParts;
  readonly #stop = new AbortController();
  readonly #board: StatusBoard;
  readonly #history: SourceHistory;
  readonly #runner: PassRunner;
  readonly #backoff: Backoff;
  readonly #announcer: Announcer;
  #record: LoopRecord = emptyRecord;
  /** The desired state last applied, for attribution. */
  #base: DesiredState | null = null;
  #progressAt: number;
  #badSettings: string | null = null;

  constructor(parts: LoopParts) {
    const { clock, source, version, observer } = parts;
    this.#parts = parts;
    this.#progressAt = clock.now();
    this.#board = new StatusBoard(createStatus(version, source.description, clock.wallTime()), clock);
    this.#history = new SourceHistory(source, clock);
    this.#runner = new PassRunner(parts, this.#board, this.#stop.signal, () => this.#touch());
    this.#backoff = new Backoff(clock);
    this.#announcer = new Announcer(observer);
  }

  status(): Status {
    const { lease, degraded, tokenExpiresAt, settings } = this.#parts;
    return {
      ...this.#board.status,
      role: lease.mayStart() ? 'writer' : 'standby',
      holder: lease.holder(),
      suspended: settings().suspended,
      degraded: degraded(),
      tokenExpiresAt: tokenExpiresAt(),
    };
  }

  isAlive(): boolean {
    const { clock, settings } = this.#parts;
    return clock.now() - this.#progressAt < stuckMs + settings().schedule.intervalMs;
  }

  complain(message: string | null): void {
    this.#badSettings = message;
  }

  stop(): void {
    this.#stop.abort();
    this.#parts.triggers.wake('stop');
  }

  async run(once: boolean): Promise<Verdict> {
    // Without the earlier state drift is not told from changes; that is no reason not to start.
    await this.#restore().catch((error: unknown) => logInternalError(this.#parts.logger, error));
    let triggers: ReadonlySet<Trigger> = new Set<Trigger>(['start']);
    let verdict: Verdict = { kind: 'held', reason: 'Stopped', message: 'stopped before a pass' };
    while (!this.#stop.signal.aborted) {
      const { waitMs, judged, unsettled } = await this.#turn(triggers);
      if (judged !== null) verdict = judged;
      this.#touch();
      if (once && judged !== null && judged.reason !== 'Settling') break;
      const next = await this.#parts.triggers.next(waitMs, this.#backoff.pending ? 'retry' : 'interval');
      triggers = unsettled ? new Set([...triggers, ...next].filter((one) => one !== 'interval')) : next;
    }
    await this.#parts.lease.release();
    return verdict;
  }

  /** Takes up where an earlier process left: its record, what was in force, and the desired state it last applied in full. */
  async #restore(): Promise<void> {
    const { store, source, build } = this.#parts;
    this.#record = await store.load();
    const { appliedRevision, appliedAt, appliedDesired, inForceRevision } = this.#record;
    this.#board.revisions({ applied: appliedRevision, appliedAt });
    const contentOf = async (revision: string | null): Promise<SourceContent | null> =>
      revision === null || source.readAt === undefined
        ? null
        : (await source.readAt(revision, this.#stop.signal)).content;
    const inForce = await contentOf(inForceRevision);
    if (inForce !== null) this.#history.accept(inForce);
    const applied = inForceRevision === appliedRevision ? inForce : await contentOf(appliedRevision);
    if (applied === null) return;
    const base = await build(applied);
    // Under other settings the same manifests ask for something else than was applied.
    this.#base = appliedDesired === null || base?.digest === appliedDesired ? base : null;
  }

  /** Looks at the source, chooses what is to be in effect, converges, judges. */
  async #turn(triggers: ReadonlySet<Trigger>): Promise<Turned> {
    const { clock, lease, settings } = this.#parts;
    const interval = pickInterval(settings().schedule, clock.random());
    if (askedAnew.some((trigger) => triggers.has(trigger))) {
      this.#runner.forgetStall();
      this.#history.reconsider();
    }
    const standsBy = (): boolean => {
      if (lease.mayStart()) return false;
      this.#board.standBy(lease.holder(), this.#badSettings);
      return true;
    };
    standsBy(); // said before the source is asked, which may take long
    const reading = await this.#observe();
    if (this.#stop.signal.aborted) return { waitMs: 0, judged: null };
    if (standsBy()) return { waitMs: interval, judged: null };
    const choice = await this.#choose(reading);
    const waitMs = choice.settlingMs ?? interval;
    if (choice.content === null) return this.#withoutContent(choice, triggers, waitMs);
    const { revision } = choice.content;
    const complained = choice.complaint !== null;
    if (this.#backoff.holds({ revision, complained, triggers })) {
      return { waitMs: Math.min(waitMs, this.#backoff.leftMs()), judged: null };
    }
    this.#backoff.begin({ revision, complained });
    const done = await this.#converge(choice.content, choice.complaint, triggers);
    return { ...done, waitMs: Math.min(done.waitMs, choice.settlingMs ?? done.waitMs) };
  }

  async #observe(): Promise<SourceReading> {
    const { source, clock, observer, logger } = this.#parts;
    const from = clock.now();
    const { signal } = this.#stop;
    const reading = await source.read(signal).catch((error: unknown) => explainSourceError(error, signal));
    observer.phaseEnded('source', clock.now() - from);
    this.#touch();
    const observed = reading.content?.revision ?? reading.observed;
    if (observed === undefined) return reading;
    if (observed !== this.#board.status.revisions.observed) {
      this.#runner.forgetStall();
      logger.info('A revision was observed', { revision: observed });
    }
    this.#board.revisions({ observed });
    return reading;
  }

  async #choose(reading: SourceReading): Promise<RevisionSelection> {
    const choice = await this.#history.choose(reading, {
      settings: this.#parts.settings(),
      appliedRevision: this.#record.appliedRevision,
      stop: this.#stop.signal,
    });
    this.#touch();
    if (choice.settlingMs !== null) this.#reconciling('Settling', 'waiting until the content is stable');
    return choice;
  }

  /** No revision was ever good, or the first one is not stable yet. */
  async #withoutContent(
    { complaint }: RevisionSelection,
    triggers: ReadonlySet<Trigger>,
    waitMs: number,
  ): Promise<Turned> {
    if (complaint === null) return { waitMs, judged: null, unsettled: true };
    const { clock } = this.#parts;
    const ending = { triggers, started: clock.wallTime(), from: clock.now(), content: null, holdMs: null };
    return this.#conclude({ ...ending, verdict: complaint });
  }

  /** Runs the pass, and again with the last good revision when the new one has errors. */
  async #converge(
    content: SourceContent,
    complaint: Verdict | null,
    triggers: ReadonlySet<Trigger>,
  ): Promise<Turned & { readonly judged: Verdict }> {
    const { clock } = this.#parts;
    const { lastGood } = this.#history;
    const ended = { triggers, started: clock.wallTime(), from: clock.now() };
    this.#reconciling('Progressing', `working on ${shortenRevision(content.revision)}`);
    if (complaint === null) this.#board.revisions({ attempted: content.revision });
    const run = await this.#run(content);
    if (run.verdict.reason !== 'ManifestsInvalid' || content.revision === lastGood?.revision) {
      return this.#conclude({ ...ended, ...run, content, ...(complaint === null ? {} : { complaint }) });
    }
    if (!mayMend(run.result)) this.#history.reject(content.revision, run.verdict);
    if (lastGood === null) return this.#conclude({ ...ended, content, verdict: run.verdict, holdMs: null });
    this.#backoff.begin({ revision: lastGood.revision, complained: true });
    const fallback = await this.#run(lastGood);
    return this.#conclude({ ...ended, ...fallback, content: lastGood, complaint: run.verdict });
  }

  #run(content: SourceContent): Promise<PublishableRun> {
    const { appliedRevision, appliedDesired } = this.#record;
    const isSame = content.revision === appliedRevision;
    return this.#runner.run({
      content,
      base: this.#base,
      knownRules: this.#record.knownRules,
      begin: () => this.#begin(content),
      inEffect: isSame ? { digest: appliedDesired, state: this.#base } : null,
      deleteWaitMs: () => this.#history.quietLeft(this.#parts.settings().deleteQuietMs),
    });
  }

  /**
   * From its first write on this revision is in force, and stays so while the source is gone, though the server may refuse some
   * of it: to go back to the one before would undo what has been carried out, because of an outage.
   */
  async #begin(content: SourceContent): Promise<void> {
    this.#history.accept(content);
    if (this.#record.inForceRevision === content.revision) return;
    this.#record = { ...this.#record, inForceRevision: content.revision };
    await this.#parts.store.save(this.#record);
  }

  async #conclude(end: PassEnding): Promise<Turned & { readonly judged: Verdict }> {
    const { clock, settings, observer, logger } = this.#parts;
    const verdict = end.complaint ?? end.verdict;
    const { schedule } = settings();
    const before = this.#record.appliedRevision;
    const inEffect = isInForce(end.verdict) ? end.content : null;
    if (inEffect !== null) await this.#applied(inEffect, end.result ?? null);
    // After the wait and all at once, so that nobody sees one revision in effect beside what is said of another.
    end.show?.();
    if (inEffect !== null) this.#board.revisions({ applied: inEffect.revision, appliedAt: this.#record.appliedAt });
    if (verdict.kind === 'good') this.#board.update({ lastSuccessAt: clock.wallTime() });
    const isNew = before !== null && before !== this.#record.appliedRevision;
    this.#backoff.ended(end.verdict.kind === 'transient' ? end.verdict : verdict, schedule);
    const view = viewPass(end, verdict, clock);
    this.#board.ended(view);
    const revision = end.content?.revision ?? null;
    const { failures } = this.#backoff;
    this.#board.set(...describeConditions(verdict, { revision, failures, badSettings: this.#badSettings }));
    logPass(logger, view);
    observer.passEnded(view, this.status());
    this.#announcer.tell({ verdict, pass: end.verdict, isNew }, this.status());
    const interval = pickInterval(schedule, clock.random());
    const retryMs = this.#backoff.pending ? this.#backoff.leftMs() : interval;
    return { waitMs: Math.min(interval, retryMs, end.holdMs ?? interval), judged: verdict };
  }

  async #applied(content: SourceContent, result: PassResult | null): Promise<void> {
    const { clock, store } = this.#parts;
    this.#history.accept(content);
    this.#base = result?.desired?.state ?? this.#base;
    const wallTime = clock.wallTime();
    const before = this.#record;
    const isNew = before.appliedRevision !== content.revision;
    const appliedAt = isNew ? wallTime : before.appliedAt;
    const knownRules = countLiveRules(result) ?? before.knownRules;
    const appliedDesired = this.#base?.digest ?? before.appliedDesired;
    const { revision } = content;
    this.#record = { appliedRevision: revision, appliedAt, inForceRevision: revision, appliedDesired, knownRules };
    const isOther = appliedDesired !== before.appliedDesired || knownRules !== before.knownRules;
    if (isNew || isOther) await store.save(this.#record);
  }

  #reconciling(reason: 'Settling' | 'Progressing', message: string): void {
    this.#board.set({ type: 'Reconciling', status: 'True', reason, message });
  }

  #touch(): void {
    this.#progressAt = this.#parts.clock.now();
  }
}
