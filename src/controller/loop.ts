import type { Outcome } from '../apply/outcome.ts';
import type { DesiredState } from '../model/state.ts';
import type { PassResult } from '../pass.ts';
import type { Plan } from '../plan/plan.ts';
import type { SourceContent, SourceReading } from '../ports.ts';
import type { ConditionUpdate } from './conditions.ts';
import { withCondition } from './conditions.ts';
import { withEnforcement } from './enforcement.ts';
import type { Verdict } from './failure.ts';
import { judge, worst } from './failure.ts';
import type { FightMemory } from './fight.ts';
import { rememberCorrections } from './fight.ts';
import { createGapClock } from './gap-clock.ts';
import type { Held } from './gate.ts';
import { gate, planKey, stepKey, vanishing } from './gate.ts';
import type { Loop, LoopParts } from './loop-parts.ts';
import type { PassEnding, Run } from './pass-ending.ts';
import { countAfter, isOutage, mayBeOnePart, passView } from './pass-ending.ts';
import type { LoopRecord } from './record.ts';
import { emptyRecord } from './record.ts';
import { nextBackoff, nextInterval } from './schedule.ts';
import type { Settling } from './settle.ts';
import { followRevision, untilStable } from './settle.ts';
import { sourceVerdict, unexpectedReading } from './source-verdict.ts';
import type { Part, PassView, Status } from './status.ts';
import { initialStatus, viewOfPlan, withPass } from './status.ts';
import type { Trigger } from './trigger.ts';

export type { Loop, LoopParts, LoopSettings, PassRequest } from './loop-parts.ts';

/** What of the source is to be in effect, and what is wrong with its newest revision. */
interface Choice {
  readonly content: SourceContent | null;
  readonly complaint: Verdict | null;
  readonly waitMs: number | null;
}

const preempting: ReadonlySet<Trigger> = new Set(['webhook', 'signal', 'token', 'settings', 'lease', 'start']);

/** Builds the loop; nothing happens before `run`. */
export function createLoop(parts: LoopParts): Loop {
  return new ControlLoop(parts);
}

class ControlLoop implements Loop {
  readonly #parts: LoopParts;
  readonly #stop = new AbortController();
  #status: Status;
  #record: LoopRecord = emptyRecord;
  #base: DesiredState | null = null;
  #lastGood: SourceContent | null = null;
  #settling: Settling | null = null;
  #unstableSince: number | null = null;
  #rejected: { readonly revision: string; readonly verdict: Verdict } | null = null;
  #stalled: { readonly key: string; readonly hold: Held } | null = null;
  #unconverged: { readonly key: string; readonly times: number } = { key: '', times: 0 };
  #fights: FightMemory = new Map();
  #failures = 0;
  #retryAt = 0;
  #serverWasDown = false;
  /** The content of the last pass; a backoff holds for it alone. */
  #tried: string | null = null;
  #progressAt: number;
  #told: string | null = null;
  #badSettings: string | null = null;

  constructor(parts: LoopParts) {
    this.#parts = parts;
    this.#progressAt = parts.clock.now();
    this.#status = initialStatus(parts.version, parts.source.description, parts.clock.wallTime());
  }

  status(): Status {
    const { lease, degraded, tokenExpiresAt, settings } = this.#parts;
    return {
      ...this.#status,
      role: lease.mayStart() ? 'writer' : 'standby',
      holder: lease.holder(),
      suspended: settings().suspended,
      degraded: degraded(),
      tokenExpiresAt: tokenExpiresAt(),
    };
  }

  progressAt(): number {
    return this.#progressAt;
  }

  complain(message: string | null): void {
    this.#badSettings = message;
  }

  stop(): void {
    this.#stop.abort();
    this.#parts.triggers.wake('stop');
  }

  async run(once: boolean): Promise<Verdict> {
    await this.#restore();
    let triggers: ReadonlySet<Trigger> = new Set<Trigger>(['start']);
    let verdict: Verdict = { kind: 'held', reason: 'Stopped', message: 'stopped before a pass' };
    while (!this.#stop.signal.aborted) {
      const { waitMs, judged } = await this.#cycle(triggers);
      if (judged !== null) verdict = judged;
      this.#touch();
      if (once && judged !== null && judged.reason !== 'Settling') break;
      triggers = await this.#parts.triggers.next(waitMs, this.#retryAt > 0 ? 'retry' : 'interval');
    }
    await this.#parts.lease.release();
    return verdict;
  }

  /** Takes up where an earlier process left: its record, and the desired state it last applied, where the source still has it. */
  async #restore(): Promise<void> {
    const { store, source, build } = this.#parts;
    this.#record = await store.load();
    const { appliedRevision, appliedAt } = this.#record;
    this.#setRevisions({ applied: appliedRevision, appliedAt });
    if (appliedRevision === null || source.readAt === undefined) return;
    const reading = await source.readAt(appliedRevision, this.#stop.signal);
    if (reading.content === null) return;
    this.#lastGood = reading.content;
    this.#base = await build(reading.content);
  }

  /** One turn: look at the source, choose what is to be in effect, converge, judge. */
  async #cycle(triggers: ReadonlySet<Trigger>): Promise<{ waitMs: number; judged: Verdict | null }> {
    const { clock, lease } = this.#parts;
    const interval = nextInterval(this.#parts.settings().schedule, clock.random());
    if (triggers.has('settings') || triggers.has('signal') || triggers.has('token')) this.#stalled = null;
    const reading = await this.#observe();
    if (this.#stop.signal.aborted) return { waitMs: 0, judged: null };
    if (!lease.mayStart()) {
      this.#set({
        type: 'Reconciling',
        status: 'False',
        reason: 'Standby',
        message: 'another replica holds the lease',
      });
      return { waitMs: interval, judged: null };
    }
    const choice = await this.#choose(reading);
    if (choice.content === null) {
      if (choice.complaint === null) return { waitMs: choice.waitMs ?? interval, judged: null };
      return this.#conclude({
        triggers,
        started: clock.wallTime(),
        from: clock.now(),
        content: null,
        verdict: choice.complaint,
        holdMs: null,
      });
    }
    if (this.#mustWait(choice.content.revision, triggers))
      return { waitMs: Math.min(interval, this.#retryAt - clock.now()), judged: null };
    const done = await this.#converge(choice.content, choice.complaint, triggers);
    return choice.waitMs === null ? done : { ...done, waitMs: Math.min(done.waitMs, choice.waitMs) };
  }

  async #observe(): Promise<SourceReading> {
    const { source, clock, observer } = this.#parts;
    const from = clock.now();
    const reading = await source
      .read(this.#stop.signal)
      .catch((error: unknown) => unexpectedReading(error, this.#stop.signal));
    observer.phaseEnded('source', clock.now() - from);
    this.#touch();
    const observed = reading.content?.revision ?? reading.observed;
    if (observed !== undefined) {
      if (observed !== this.#status.revisions.observed) {
        this.#stalled = null;
        this.#parts.logger.info('A revision was observed', { revision: observed });
      }
      this.#setRevisions({ observed });
    }
    return reading;
  }

  /** A failure's backoff holds, unless the revision is another one or somebody asks. */
  #mustWait(revision: string, triggers: ReadonlySet<Trigger>): boolean {
    if (this.#retryAt <= this.#parts.clock.now()) return false;
    if (revision !== this.#tried) return false;
    return ![...triggers].some((trigger) => preempting.has(trigger));
  }

  /**
   * What is to be in effect: the newest revision when it is readable, stable, not rejected and no step back; otherwise the last
   * good one, with the complaint. A source that is gone is never "everything was deleted".
   */
  async #choose(reading: SourceReading): Promise<Choice> {
    const { clock, settings } = this.#parts;
    const { content } = reading;
    const keep = (complaint: Verdict | null, waitMs: number | null): Choice => ({
      content: this.#lastGood,
      complaint,
      waitMs,
    });
    if (content === null) return keep(sourceVerdict(reading), null);
    const now = clock.now();
    this.#settling = followRevision(this.#settling, content.revision, now);
    const waitMs = untilStable(this.#settling, settings().quietMs, now);
    if (waitMs > 0 && content.revision !== this.#lastGood?.revision) {
      this.#unstableSince ??= now;
      this.#set({
        type: 'Reconciling',
        status: 'True',
        reason: 'Settling',
        message: 'waiting until the content is stable',
      });
      const starved = now - this.#unstableSince > settings().schedule.intervalMs;
      return starved ? keep(null, waitMs) : { content: null, complaint: null, waitMs };
    }
    this.#unstableSince = null;
    if (this.#rejected?.revision === content.revision) return keep(this.#rejected.verdict, null);
    const rewind = await this.#rewindOf(content.revision);
    return rewind === null ? { content, complaint: null, waitMs: null } : keep(rewind, null);
  }

  async #rewindOf(revision: string): Promise<Verdict | null> {
    const { source, settings } = this.#parts;
    const applied = this.#record.appliedRevision;
    if (applied === null || applied === revision || source.descends === undefined || settings().allowRewind)
      return null;
    const descends = await source.descends(applied, revision, this.#stop.signal);
    this.#touch();
    if (descends === 'yes') return null;
    const because = descends === 'no' ? 'it does not descend from' : 'it is not known to descend from';
    const message = `${short(revision)} is not applied: ${because} ${short(applied)}, the applied revision; start with --allow-rewind to accept it`;
    return { kind: 'terminal', reason: 'RewindRefused', message };
  }

  /** Runs the pass, and again with the last good revision when the new one has errors. */
  async #converge(
    content: SourceContent,
    complaint: Verdict | null,
    triggers: ReadonlySet<Trigger>,
  ): Promise<{ waitMs: number; judged: Verdict }> {
    const { clock } = this.#parts;
    const started = clock.wallTime();
    const from = clock.now();
    this.#set({
      type: 'Reconciling',
      status: 'True',
      reason: 'Progressing',
      message: `working on ${short(content.revision)}`,
    });
    if (complaint === null) this.#setRevisions({ attempted: content.revision });
    const ended = { triggers, started, from };
    const run = await this.#runParts(content);
    if (run.verdict.reason !== 'ManifestsInvalid' || content === this.#lastGood) {
      return this.#conclude({
        ...ended,
        ...run,
        content,
        verdict: run.verdict,
        ...(complaint === null ? {} : { complaint }),
      });
    }
    this.#rejected = { revision: content.revision, verdict: run.verdict };
    if (this.#lastGood === null) return this.#conclude({ ...ended, content, verdict: run.verdict, holdMs: null });
    const fallback = await this.#runParts(this.#lastGood);
    return this.#conclude({ ...ended, ...fallback, content: this.#lastGood, complaint: run.verdict });
  }

  /** One pass over everything; when a part of it stands in the way of the other, each part by itself. */
  async #runParts(content: SourceContent): Promise<Run> {
    this.#tried = content.revision;
    const whole = await this.#runOne(content);
    if (!mayBeOnePart(whole.result)) {
      this.#setParts(whole);
      return whole;
    }
    const rules = await this.#runOne(content, 'rules');
    const configuration = await this.#runOne(content, 'configuration');
    const view = (run: Run) => ({
      ready: run.verdict.kind === 'good',
      reason: run.verdict.reason,
      message: run.verdict.message,
    });
    this.#status = { ...this.#status, parts: { rules: view(rules), configuration: view(configuration) } };
    const plan = [rules, configuration].find((run) => run.verdict.kind !== 'good')?.result ?? rules.result;
    const holds = [rules.holdMs, configuration.holdMs].filter((ms) => ms !== null);
    return {
      result: plan,
      verdict: worst([rules.verdict, configuration.verdict]),
      holdMs: holds.length === 0 ? null : Math.min(...holds),
      outcomes: [...rules.outcomes, ...configuration.outcomes],
    };
  }

  async #runOne(content: SourceContent, part?: Part): Promise<Run> {
    const { clock, observer, lease, logger } = this.#parts;
    const gaps = createGapClock(clock, observer);
    const outcomes: Outcome[] = [];
    const from = clock.now();
    let approvedAt: number | null = null;
    let hold: Held | null = null;
    const isDrift = content.revision === this.#record.appliedRevision;
    const stop = AbortSignal.any([this.#stop.signal, lease.signal()]);
    const result = await this.#parts
      .pass({
        content,
        ...(part === undefined ? {} : { part }),
        base: this.#base,
        memory: { knownRules: this.#record.knownRules, serverWasDown: this.#serverWasDown },
        stop,
        approve: async (plan) => {
          observer.phaseEnded('plan', clock.now() - from);
          this.#touch();
          approvedAt = clock.now();
          hold = this.#gate(plan, isDrift);
          if (hold === null) this.#allowed(plan, isDrift);
          return hold === null;
        },
        onOutcome: (outcome) => {
          outcomes.push(outcome);
          gaps.ended(outcome);
          this.#touch();
        },
      })
      .catch((error: unknown) => this.#unexpected(error));
    observer.phaseEnded(approvedAt === null ? 'plan' : 'apply', clock.now() - (approvedAt ?? from));
    if (result === null) {
      const verdict: Verdict = {
        kind: 'transient',
        reason: 'ApplyFailed',
        message: 'an internal error ended the pass; see the log',
      };
      return { result: null, verdict, holdMs: null, outcomes };
    }
    const verdict = this.#stallWhenHopeless(judge(result, hold), result);
    this.#remember(result, isDrift);
    for (const one of result.problems)
      if (one.severity === 'warning') logger.debug('A problem was found', { code: one.code, summary: one.summary });
    return { result, verdict, holdMs: waitOf(hold), outcomes: result.apply?.outcomes ?? outcomes };
  }

  #gate(plan: Plan, isDrift: boolean): Held | null {
    const { clock, lease, settings } = this.#parts;
    const now = clock.now();
    const { suspended, onDrift, deleteQuietMs, fight } = settings();
    return gate({
      plan,
      now,
      suspended,
      writer: lease.mayStart(),
      onDrift,
      isDrift,
      deleteWaitMs: isDrift || this.#settling === null ? 0 : untilStable(this.#settling, deleteQuietMs, now),
      stalled: this.#stalled,
      fights: this.#fights,
      fightSettings: fight,
    });
  }

  #allowed(plan: Plan, isDrift: boolean): void {
    const { clock, logger, settings } = this.#parts;
    if (!isDrift) return;
    this.#fights = rememberCorrections(this.#fights, plan.steps.map(stepKey), clock.now(), settings().fight);
    for (const change of plan.changes.filter((one) => one.action !== 'keep').slice(0, 50)) {
      logger.warn('Drift is corrected', {
        kind: change.kind,
        object: change.name ?? change.id ?? '',
        action: change.action,
        origin: change.origin ?? 'drift',
        fields: Object.keys(change.fields),
      });
    }
  }

  /** A plan that the server refuses, or that never converges, is not written again while nothing changes. */
  #stallWhenHopeless(verdict: Verdict, result: PassResult): Verdict {
    if (result.plan === null || result.end !== 'applied') return verdict;
    const key = planKey(result.plan);
    const hold = (): Held => ({ reason: verdict.reason, message: verdict.message, terminal: true, waitMs: null });
    if (verdict.kind === 'terminal') this.#stalled = { key, hold: hold() };
    if (verdict.reason !== 'NotConverging') return verdict;
    this.#unconverged = { key, times: this.#unconverged.key === key ? this.#unconverged.times + 1 : 1 };
    if (this.#unconverged.times < this.#parts.settings().convergenceAttempts) return verdict;
    this.#stalled = { key, hold: hold() };
    return { ...verdict, kind: 'terminal' };
  }

  #remember(result: PassResult, isDrift: boolean): void {
    this.#status = withEnforcement(this.#status, result, this.#parts.clock.wallTime());
    const plan = result.plan;
    this.#serverWasDown = result.end === 'unreadable' && isOutage(result.failure?.code ?? '');
    const pending =
      plan === null || result.end === 'in-sync'
        ? []
        : plan.changes.filter((one) => one.action !== 'keep' && one.action !== 'skip');
    const foreign = isDrift ? pending.length : pending.filter((one) => one.origin === 'drift').length;
    this.#status = {
      ...this.#status,
      drift: plan === null ? this.#status.drift : foreign,
      blockedDeletes: result.end === 'refused' && plan !== null ? vanishing(plan) : 0,
      liveRules: result.live?.rules.length ?? this.#status.liveRules,
      plan: plan === null ? null : viewOfPlan(plan, result.content?.revision ?? ''),
      fights: [...this.#fights.values()].filter((times) => times.length >= this.#parts.settings().fight.threshold)
        .length,
    };
  }

  async #conclude(end: PassEnding): Promise<{ waitMs: number; judged: Verdict }> {
    const { clock, settings } = this.#parts;
    const verdict = end.complaint ?? end.verdict;
    if (end.verdict.kind === 'good' && end.content !== null) await this.#applied(end.content, end.result ?? null);
    this.#schedule(end.verdict.kind === 'transient' ? end.verdict : verdict);
    const view = passView(end, verdict, clock);
    this.#status = { ...this.#status, passes: withPass(this.#status.passes, view) };
    this.#setConditions(verdict, end.content);
    this.#logPass(view);
    this.#parts.observer.passEnded(view, this.status());
    this.#tell(verdict, end.verdict);
    const interval = nextInterval(settings().schedule, clock.random());
    const retry = this.#retryAt > 0 ? Math.max(0, this.#retryAt - clock.now()) : interval;
    return { waitMs: Math.min(interval, retry, end.holdMs ?? interval), judged: verdict };
  }

  async #applied(content: SourceContent, result: PassResult | null): Promise<void> {
    const { clock, store } = this.#parts;
    this.#lastGood = content;
    this.#base = result?.desired?.state ?? this.#base;
    const wallTime = clock.wallTime();
    const isNew = this.#record.appliedRevision !== content.revision;
    const appliedAt = isNew ? wallTime : this.#record.appliedAt;
    const knownRules = countAfter(result) ?? this.#record.knownRules;
    const changed = isNew || knownRules !== this.#record.knownRules;
    this.#record = { appliedRevision: content.revision, appliedAt, knownRules };
    this.#setRevisions({ applied: content.revision, appliedAt });
    this.#status = { ...this.#status, lastSuccessAt: wallTime, drift: 0 };
    if (changed) await store.save(this.#record);
  }

  #schedule(verdict: Verdict): void {
    const { clock, settings } = this.#parts;
    if (verdict.kind !== 'transient') {
      this.#failures = 0;
      this.#retryAt = 0;
      return;
    }
    this.#failures += 1;
    this.#retryAt = clock.now() + nextBackoff(settings().schedule, this.#failures, clock.random());
  }

  #setConditions(verdict: Verdict, content: SourceContent | null): void {
    const { kind, reason, message } = verdict;
    const good = kind === 'good';
    this.#set({
      type: 'Ready',
      status: good ? 'True' : 'False',
      reason,
      message: good && content !== null ? `${short(content.revision)}: ${message}` : message,
    });
    const bad = this.#badSettings;
    const stalled = kind === 'terminal' || bad !== null;
    this.#set({
      type: 'Stalled',
      status: stalled ? 'True' : 'False',
      reason: bad !== null ? 'BadSettings' : stalled ? reason : 'Progress',
      message: bad ?? (stalled ? message : ''),
    });
    const retrying = kind === 'transient';
    this.#set({
      type: 'Reconciling',
      status: retrying ? 'True' : 'False',
      reason: retrying ? 'Retrying' : 'Idle',
      message: retrying ? `failed ${this.#failures} times in a row` : '',
    });
  }

  #logPass(view: PassView): void {
    const { logger } = this.#parts;
    const fields = {
      revision: view.revision,
      result: view.result,
      reason: view.reason,
      detail: view.message,
      triggers: view.triggers,
      durationMs: view.durationMs,
      steps: view.steps,
      ...view.outcomes,
    };
    if (view.result === 'good') logger.info('The pass ended', fields);
    else if (view.result === 'held') logger.warn('The pass ended', fields);
    else logger.error('The pass ended', fields);
  }

  /** Tells people about a change, not about a state: once broken, once recovered, and what was applied. */
  #tell(verdict: Verdict, pass: Verdict): void {
    const good = verdict.kind === 'good';
    const now = good ? 'good' : `${verdict.reason}`;
    const before = this.#told;
    this.#told = now;
    const status = this.status();
    const condition = status.conditions.Ready;
    if (!good && before !== now && verdict.reason !== 'Settling')
      this.#parts.observer.turned({ what: 'broken', condition, status });
    if (good && before !== null && before !== 'good' && before !== 'Settling')
      this.#parts.observer.turned({ what: 'recovered', condition, status });
    if (pass.kind === 'good' && pass.reason === 'Applied')
      this.#parts.observer.turned({ what: 'applied', condition, status });
  }

  #unexpected(error: unknown): null {
    // Neither message nor value: they may hold anything. Name and frames are ours.
    const name = error instanceof Error ? error.name : typeof error;
    const frames =
      error instanceof Error
        ? (error.stack ?? '')
            .split('\n')
            .filter((line) => /^\s+at /.test(line))
            .slice(0, 6)
        : [];
    this.#parts.logger.error('An internal error ended the pass', {
      error: name,
      frames: frames.map((line) => line.trim()),
    });
    return null;
  }

  #setParts(run: Run): void {
    const view = { ready: run.verdict.kind === 'good', reason: run.verdict.reason, message: run.verdict.message };
    const failed = run.outcomes.filter((one) => one.outcome !== 'done' && one.outcome !== 'skipped');
    const clear = { ready: true, reason: 'InSync', message: '' };
    const onlyConfiguration = failed.length > 0 && failed.every((one) => one.step.type === 'configure');
    const onlyRules = failed.length > 0 && failed.every((one) => one.step.type !== 'configure');
    const managed = Boolean(run.result?.desired?.state?.configuration);
    this.#status = {
      ...this.#status,
      parts: { rules: onlyConfiguration ? clear : view, configuration: managed ? (onlyRules ? clear : view) : null },
    };
  }

  #set(update: ConditionUpdate): void {
    const conditions = withCondition(this.#status.conditions, update, this.#parts.clock.wallTime());
    this.#status = { ...this.#status, conditions };
  }

  #setRevisions(update: Partial<Status['revisions']>): void {
    this.#status = { ...this.#status, revisions: { ...this.#status.revisions, ...update } };
  }

  #touch(): void {
    this.#progressAt = this.#parts.clock.now();
  }
}

function short(revision: string): string {
  return revision.replace(/^sha256:/, '').slice(0, 12);
}

/** A function, because control flow analysis takes what a callback sets for null. */
function waitOf(hold: Held | null): number | null {
  return hold?.waitMs ?? null;
}
