import { ruleKey } from '../model/rule.ts';
import type { Plan, Step } from '../plan/plan.ts';
import { requestOf } from '../plan/plan.ts';
import type { Traffic } from '../policy/traffic.ts';
import type { JournalEntry } from '../ports.ts';
import { foreseeFailures } from './foresee.ts';
import type { Lane } from './gate.ts';
import { groupsOf } from './groups.ts';
import type { Outcome } from './outcome.ts';
import { perform } from './perform.ts';
import { noPortsMessage } from './port-rules.ts';
import { type Member, restore } from './restore.ts';
import { createSchedule, type Schedule } from './schedule.ts';
import type { Session } from './session.ts';
import { type Settled, settledWell } from './settled.ts';

/** What running one plan's steps came to. */
export interface RoundResult {
  /** One for each step of the plan. */
  readonly outcomes: readonly Outcome[];
  /** The server held something the plan did not know of. */
  readonly surprised: boolean;
  /** Traffic of gaps that could be neither closed nor undone. */
  readonly leftOpen: readonly Traffic[];
}

/** Runs the steps of a plan; `givenUp` says which have failed for good before and are not tried again. */
export async function runRound(plan: Plan, session: Session, givenUp: (step: Step) => boolean): Promise<RoundResult> {
  const round = new Round(plan, session);
  for (const step of plan.steps)
    if (givenUp(step)) round.refuse(step, 'not tried again: it failed before in this apply');
  for (const [step, message] of await foreseeFailures(plan, groupsOf(plan), session)) round.refuse(step, message);
  return round.run();
}

/** The state of one round: what is in flight, and the unit of gaps that is open. */
class Round {
  readonly #plan: Plan;
  readonly #session: Session;
  readonly #schedule: Schedule;
  readonly #groups: ReadonlyMap<string, string>;
  /** Groups of which the journal has the first step. */
  readonly #begun = new Set<string>();
  readonly #outcomes: Outcome[] = [];
  readonly #leftOpen: Traffic[] = [];
  /** Steps of the open gaps that ended; reported once the gaps are closed or restored. */
  #unit: Member[] = [];
  #unitFailed = false;
  #surprised = false;
  #inFlight = 0;
  #alone = false;
  #noPorts = false;
  #journalFailed = false;
  /** Programming errors: never swallowed. */
  readonly #broken: unknown[] = [];
  #wake: () => void = () => undefined;

  constructor(plan: Plan, session: Session) {
    this.#plan = plan;
    this.#session = session;
    this.#groups = groupsOf(plan);
    this.#schedule = createSchedule(plan.steps, this.#groups, session.context.closeFirst);
  }

  /** A step that is known to fail: it fails unsent, and what needs it is dropped. */
  refuse(step: Step, message: string): void {
    for (const dropped of this.#schedule.drop(step)) {
      if (dropped === step) this.#report(step, { outcome: 'failed', status: null, message });
      else this.#reportDropped(dropped, `not attempted: it needs ${step.id}, which would fail`);
    }
  }

  async run(): Promise<RoundResult> {
    const wake = (): void => this.#wake();
    this.#session.soft.addEventListener('abort', wake);
    while (await this.#turn());
    this.#session.soft.removeEventListener('abort', wake);
    for (const step of this.#schedule.dropRest()) this.#reportDropped(step, 'not attempted: the apply was stopped');
    return { outcomes: this.#outcomes, surprised: this.#surprised, leftOpen: this.#leftOpen };
  }

  /** Starts a step, ends a unit of gaps, or waits; false when nothing is left to do. */
  async #turn(): Promise<boolean> {
    const schedule = this.#schedule;
    if (this.#broken.length > 0) throw this.#broken[0];
    if (schedule.gapOpen() && schedule.openLeft() === 0) {
      // A step that the gap needed may still be under way when another failed: what it did has to be undone too.
      if (this.#inFlight > 0) await this.#changed(Number.POSITIVE_INFINITY);
      else await this.#endUnit();
      return true;
    }
    const waitMs = this.#waitMs();
    if (waitMs === 0) {
      const step = schedule.take({
        idle: this.#inFlight === 0,
        gapMayOpen: this.#session.gate.gapWaitMs() === 0,
        gapsFirst: this.#session.gate.backlogRising(),
      });
      if (step !== null) {
        this.#start(step);
        return true;
      }
    }
    if (this.#inFlight > 0) {
      await this.#changed(waitMs === 0 ? Number.POSITIVE_INFINITY : waitMs);
      return true;
    }
    if (schedule.gapOpen()) {
      if (waitMs > 0) await this.#changed(waitMs);
      else this.#fail(schedule.abandon());
      return true;
    }
    if (schedule.unfinished() === 0 || this.#session.stopped() !== null) return false;
    await this.#changed(Math.max(waitMs, this.#session.gate.gapWaitMs()));
    return true;
  }

  /** ms until a step could be started as far as time goes; infinite while something else must happen first. */
  #waitMs(): number {
    const { gate, context } = this.#session;
    if (this.#alone || this.#inFlight >= context.limits.concurrency) return Number.POSITIVE_INFINITY;
    if (this.#schedule.gapOpen()) return Math.max(0, Math.min(gate.waitMs('gap'), this.#session.closeWithinMs()));
    return this.#session.stopped() !== null ? Number.POSITIVE_INFINITY : gate.waitMs('normal');
  }

  /** Waits for a step to end, a stop, or that long. */
  async #changed(ms: number): Promise<void> {
    const changed = new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    if (!Number.isFinite(ms)) return changed; // the common case while requests are under way: no timer
    const woken = new AbortController();
    await Promise.race([changed, this.#session.context.clock.sleep(ms, woken.signal)]);
    woken.abort();
  }

  #start(step: Step): void {
    const lane: Lane = this.#schedule.gapOpen() ? 'gap' : 'normal';
    this.#inFlight++;
    if (step.type === 'delete' && step.mayRebuild) this.#alone = true;
    const ended = (settle: () => void): void => {
      this.#inFlight--;
      this.#alone = false;
      settle();
      this.#wake();
    };
    this.#perform(step, lane).then(
      (settled) => ended(() => this.#settle(step, settled, lane)),
      (error: unknown) => ended(() => this.#broken.push(error)),
    );
  }

  async #perform(step: Step, lane: Lane): Promise<Settled> {
    if (this.#session.context.journal === null) return perform(step, this.#plan, this.#session, lane);
    await this.#record(step, null);
    const settled = await perform(step, this.#plan, this.#session, lane);
    await this.#record(step, settled);
    return settled;
  }

  #settle(step: Step, settled: Settled, lane: Lane): void {
    const schedule = this.#schedule;
    const done = settledWell(settled.outcome);
    const inUnit = lane === 'gap';
    const dropped = schedule.settle(step, done);
    if (settled.surprise === true) this.#surprised = true;
    if (settled.problem !== undefined) this.#session.problems.push(settled.problem);
    if (settled.unauthorized === true) this.#session.stop('unauthorized');
    if (inUnit) this.#unit.push({ step, settled });
    else this.#report(step, settled);
    if (inUnit && !done) this.#fail(schedule.abandon());
    this.#drop(
      dropped,
      `not attempted: it needs ${step.id}, which ${settled.outcome === 'unknown' ? 'is unknown' : 'failed'}`,
    );
    if (this.#session.noPorts && !this.#noPorts) this.#refusePorts();
  }

  #fail(steps: readonly Step[]): void {
    this.#unitFailed = true;
    this.#drop(steps, 'not attempted: its gap could not be closed');
  }

  #drop(steps: readonly Step[], message: string): void {
    for (const step of steps) {
      if (this.#schedule.inOpenGap(step) && !this.#unitFailed) this.#fail(this.#schedule.abandon());
      this.#reportDropped(step, message);
    }
  }

  #refusePorts(): void {
    this.#noPorts = true;
    for (const step of this.#plan.steps) {
      if ((step.type === 'create' || step.type === 'update') && step.rule.ports !== null)
        this.refuse(step, noPortsMessage);
    }
  }

  async #endUnit(): Promise<void> {
    const members = this.#unit;
    const failed = this.#unitFailed;
    this.#unit = [];
    if (failed) {
      const restored = await restore(members, this.#plan, this.#session);
      for (const [index, { step, settled }] of restored.members.entries()) {
        this.#report(step, settled);
        if (settled !== members[index]?.settled)
          this.#drop(this.#schedule.undone(step), `not attempted: it needs ${step.id}, which was undone`);
      }
      this.#leftOpen.push(...restored.leftOpen);
    } else {
      for (const { step, settled } of members) this.#report(step, settled);
    }
    this.#unitFailed = false;
    this.#schedule.closed();
  }

  #reportDropped(step: Step, message: string): void {
    this.#report(step, { outcome: 'dropped', status: null, message });
  }

  #report(step: Step, settled: Settled): void {
    const { outcome, status, message, liveId, restored } = settled;
    const reported: Outcome = {
      step,
      outcome,
      status,
      ...(message === undefined ? {} : { message }),
      ...(liveId === undefined ? {} : { liveId }),
      ...(restored === undefined ? {} : { restored }),
    };
    this.#outcomes.push(reported);
    this.#session.context.onOutcome?.(reported);
  }

  /** With the first step of a group: the rules whose creation ends it. */
  #owedBy(group: string | undefined): { readonly owes?: readonly string[] } {
    if (group === undefined || this.#begun.has(group)) return {};
    this.#begun.add(group);
    const members = this.#plan.steps.filter((step) => this.#groups.get(step.id) === group);
    return { owes: members.flatMap((step) => (step.type === 'create' ? [ruleKey(step.rule)] : [])) };
  }

  async #record(step: Step, settled: Settled | null): Promise<void> {
    const { journal, logger } = this.#session.context;
    if (journal === null) return;
    const { method, path } = requestOf(step);
    const group = this.#groups.get(step.id);
    const entry: JournalEntry = {
      event: settled === null ? 'step-started' : 'step-ended',
      step: step.id,
      method,
      path,
      ...ruleOf(step),
      ...(group === undefined ? {} : { gap: group }),
      ...(settled === null ? this.#owedBy(group) : {}),
      ...(settled === null ? {} : { outcome: settled.outcome, status: settled.status }),
    };
    try {
      await journal.write(entry);
    } catch {
      if (!this.#journalFailed) logger.warn('the journal cannot be written; the apply goes on without it');
      this.#journalFailed = true;
    }
  }
}

function ruleOf(step: Step): { readonly rule?: string } {
  switch (step.type) {
    case 'create':
    case 'update':
      return { rule: ruleKey(step.rule) };
    case 'delete':
      return { rule: ruleKey(step.live.rule) };
    case 'configure':
      return {};
  }
}
