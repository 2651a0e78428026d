import { getOrMake } from '../model/group-by.ts';
import type { Problem } from '../model/problem.ts';
import { omitUndefined } from '../model/result.ts';
import { formatRuleKey } from '../model/rule.ts';
import { type Change, type CreateStep, mayRebuild, type Plan, type Step } from '../plan/plan.ts';
import type { Traffic } from '../policy/traffic.ts';
import { configure } from './configure.ts';
import { type ApplyReport, isSuccess, type Outcome, type Settled } from './outcome.ts';
import { readUsers } from './read.ts';
import { deleteModified } from './rebuild.ts';
import { restore } from './restore.ts';
import { Schedule } from './schedule.ts';
import type { Session } from './session.ts';
import { groupSteps } from './step-graph.ts';
import type { Priority } from './throttle.ts';
import type { WriteOrder } from './write.ts';
import { createRule, deleteRule, noPortsMessage, updateRule } from './write-rule.ts';

/** What running one plan's steps came to, with one outcome for each of them. */
export interface RoundResult extends Pick<ApplyReport, 'outcomes' | 'leftOpen'> {
  /** The server held something the plan did not know of. */
  readonly surprised: boolean;
}

/** Runs the steps of a plan; `givenUp` says which have failed for good before and are not tried again. */
export async function runRound(plan: Plan, session: Session, givenUp: (step: Step) => boolean): Promise<RoundResult> {
  const groups = groupSteps(plan);
  const round = new Round(plan, session, groups);
  for (const step of plan.steps)
    if (givenUp(step)) round.refuse(step, 'not tried again: it failed before in this apply');
  for (const [step, message] of await foreseeFailures(plan, groups, session)) round.refuse(step, message);
  return round.run();
}

/** What can be foreseen before a gap: a create for an unknown user would fail in it. Users of live rules exist; others are asked for. */
async function foreseeFailures(plan: Plan, groups: ReadonlyMap<string, string>, session: Session) {
  const { context, known } = session;
  const unsure = plan.steps.filter(
    (step): step is CreateStep =>
      step.type === 'create' && groups.has(step.id) && step.rule.userId !== null && !known.hasUser(step.rule.userId),
  );
  if (unsure.length === 0 || !context.profile.listsUsers || session.stopped !== null) return [];
  const users = await readUsers({ ...session.reading, signal: session.soft });
  if (!users.ok) {
    context.logger.warn('users could not be read; a gap may meet an unknown user', { reason: users.error.message });
    return [];
  }
  const ids = new Set(users.value.map(({ id }) => id));
  return unsure.flatMap((step) => {
    const why = `not sent: the server knows no user ${step.rule.userId}, and a rule would have been deleted for it`;
    return ids.has(step.rule.userId ?? '') ? [] : [[step, why] as const];
  });
}

/** The state of one round: what is in flight, and the gap that is open. */
class Round {
  readonly #plan: Plan;
  readonly #session: Session;
  readonly #schedule: Schedule;
  readonly #groups: ReadonlyMap<string, string>;
  /** By group of which the journal has no step yet: the rules whose creation ends it. */
  readonly #owes = new Map<string, string[]>();
  readonly #outcomes: Outcome[] = [];
  readonly #leftOpen: Traffic[] = [];
  /** Steps of the open gap that ended; reported once it is closed or restored. */
  #unit: Outcome[] = [];
  #unitFailed = false;
  #surprised = false;
  #inFlight = 0;
  #alone = false;
  #noPorts = false;
  /** Programming errors: never swallowed. */
  readonly #broken: unknown[] = [];
  #wake: () => void = () => undefined;

  constructor(plan: Plan, session: Session, groups: ReadonlyMap<string, string>) {
    this.#plan = plan;
    this.#session = session;
    this.#groups = groups;
    this.#schedule = new Schedule(plan.steps, groups, session.context.closeFirst);
    for (const step of plan.steps) {
      const group = groups.get(step.id);
      if (group === undefined) continue;
      const owes = getOrMake(this.#owes, group, () => []);
      if (step.type === 'create') owes.push(formatRuleKey(step.rule));
    }
  }

  /** A step that is known to fail: it fails unsent, and what needs it is dropped. */
  refuse(step: Step, message: string): void {
    for (const dropped of this.#schedule.drop([step])) {
      if (dropped === step) this.#report({ step, outcome: 'failed', status: null, message });
      else this.#reportDropped([dropped], `not attempted: it needs ${step.id}, which would fail`);
    }
  }

  async run(): Promise<RoundResult> {
    const wake = (): void => this.#wake();
    this.#session.soft.addEventListener('abort', wake);
    while (await this.#turn());
    this.#session.soft.removeEventListener('abort', wake);
    this.#reportDropped(this.#schedule.drop(this.#plan.steps), 'not attempted: the apply was stopped');
    return { outcomes: this.#outcomes, surprised: this.#surprised, leftOpen: this.#leftOpen };
  }

  /** Starts a step, ends a unit of gaps, or waits; false when nothing is left to do. */
  async #turn(): Promise<boolean> {
    const schedule = this.#schedule;
    if (this.#broken.length > 0) throw this.#broken[0];
    if (schedule.gapEnded()) {
      await this.#endUnit();
      return true;
    }
    const { throttle, stopped } = this.#session;
    const idle = this.#inFlight === 0;
    const waitMs = this.#waitMs();
    const allowed = { idle, gapMayOpen: throttle.gapWaitMs() === 0, gapsFirst: throttle.backlogRising() };
    const step = waitMs === 0 ? schedule.take(allowed) : null;
    if (step !== null) this.#start(step);
    else if (!idle) await this.#changed(waitMs === 0 ? Number.POSITIVE_INFINITY : waitMs);
    else if (schedule.gapOpen() && waitMs === 0) this.#abandon();
    else if (schedule.gapOpen()) await this.#changed(waitMs);
    else if (schedule.unfinished === 0 || stopped !== null) return false;
    else await this.#changed(Math.max(waitMs, throttle.gapWaitMs()));
    return true;
  }

  /** ms until a step could be started as far as time goes; infinite while something else must happen first. */
  #waitMs(): number {
    const { throttle, context } = this.#session;
    if (this.#alone || this.#inFlight >= context.limits.concurrency) return Number.POSITIVE_INFINITY;
    if (this.#schedule.gapOpen()) return Math.max(0, Math.min(throttle.waitMs('gap'), this.#session.closeWithinMs()));
    return this.#session.stopped !== null ? Number.POSITIVE_INFINITY : throttle.waitMs('normal');
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
    const priority: Priority = this.#schedule.gapOpen() ? 'gap' : 'normal';
    this.#inFlight++;
    if (mayRebuild(step)) this.#alone = true;
    const ended = (settle: () => void): void => {
      this.#inFlight--;
      this.#alone = false;
      settle();
      this.#wake();
    };
    perform(step, this.#plan, { session: this.#session, priority, note: this.#noteOf(step) }).then(
      (settled) => ended(() => this.#settle({ step, ...settled })),
      (error: unknown) => ended(() => this.#broken.push(error)),
    );
  }

  /** While a gap is open, only its steps run. */
  #settle(ended: Outcome): void {
    const { step, outcome, surprise, problem } = ended;
    const schedule = this.#schedule;
    const dropped = schedule.settle(step, isSuccess(ended));
    if (surprise === true) this.#surprised = true;
    if (problem !== undefined) this.#session.problems.push(problem);
    if (schedule.gapOpen()) this.#unit.push(ended);
    else this.#report(ended);
    if (schedule.gapOpen() && !isSuccess(ended)) this.#abandon();
    const why = outcome === 'unknown' ? 'is unknown' : 'failed';
    this.#reportDropped(dropped, `not attempted: it needs ${step.id}, which ${why}`);
    if (!this.#session.noPorts || this.#noPorts) return;
    this.#noPorts = true;
    for (const one of this.#plan.steps) if (asksForPorts(one)) this.refuse(one, noPortsMessage);
  }

  #abandon(): void {
    this.#unitFailed = true;
    this.#reportDropped(this.#schedule.abandon(), 'not attempted: its gap could not be closed');
  }

  async #endUnit(): Promise<void> {
    const [schedule, members, failed] = [this.#schedule, this.#unit, this.#unitFailed];
    [this.#unit, this.#unitFailed] = [[], false];
    const undo = () => restore(members, this.#plan, this.#session, (step) => this.#noteOf(step));
    const ended = failed ? await undo() : { members, leftOpen: [] };
    for (const [index, one] of ended.members.entries()) {
      this.#report(one);
      if (one !== members[index])
        this.#reportDropped(schedule.undone(one.step), `not attempted: it needs ${one.step.id}, which was undone`);
    }
    for (const one of ended.leftOpen) this.#leftOpen.push(one);
    schedule.closed();
  }

  #reportDropped(steps: readonly Step[], message: string): void {
    for (const step of steps) this.#report({ step, outcome: 'dropped', status: null, message });
  }

  #report(outcome: Outcome): void {
    this.#outcomes.push(outcome);
    this.#session.context.onOutcome?.(outcome);
  }

  /** What the journal says of a step; with the first of a group, the rules whose creation ends it. */
  #noteOf(step: Step): WriteOrder['note'] {
    const gap = this.#groups.get(step.id);
    const { name, source } = this.#plan.changes[step.change] ?? {};
    const place = source ? `${source.file}:${source.line}` : undefined;
    const owes = this.#owes.get(gap ?? '');
    this.#owes.delete(gap ?? '');
    return { step: step.id, ...omitUndefined({ name: name ?? undefined, place, gap, owes }) };
  }
}

/** Carries one step out, to an outcome; never throws for what the server or the network does. */
async function perform(step: Step, plan: Plan, order: WriteOrder): Promise<Settled> {
  if (asksForPorts(step) && order.session.noPorts) return { outcome: 'failed', status: null, message: noPortsMessage };
  const checks = { check: () => settleOver(plan.changes[step.change], order) };
  if (step.type === 'create') return createRule(step.rule, order, checks);
  if (step.type === 'update') return updateRule(step, order, checks);
  if (step.type === 'configure') return configure(step, order);
  const send = (): Promise<Settled> => deleteRule(step.live.id, step.live.rule, order);
  return step.mayRebuild ? deleteModified(send, order) : send();
}

/** A rule that ended before its turn came is not written; null: it has not ended. */
function settleOver(change: Change | undefined, { session }: WriteOrder): Settled | null {
  if (change?.kind !== 'Rule' || change.desired === null || !session.context.isOver?.(change.desired)) return null;
  const message = `\`${change.name}\` ended before it could be written, and is not written.`;
  const problem: Problem = { code: 'expired', severity: 'note', summary: message };
  return { outcome: 'skipped', status: null, surprise: true, problem, message };
}

function asksForPorts(step: Step): boolean {
  return (step.type === 'create' || step.type === 'update') && step.rule.ports !== null;
}
