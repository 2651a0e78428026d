import { joinSome } from '../model/printable.ts';
import { makeWarning } from '../model/problem.ts';
import type { ProblemCode } from '../model/problem-code.ts';
import { formatRuleKey } from '../model/rule.ts';
import { type Change, formatStepKey, type Plan, type Step } from '../plan/plan.ts';
import type { Traffic } from '../policy/traffic.ts';
import type { ApplyContext } from './context.ts';
import { type ApplyEnd, type ApplyReport, isSuccess, judgeSettled, type Outcome } from './outcome.ts';
import { type RoundResult, runRound } from './round.ts';
import { Session } from './session.ts';

/**
 * Carries out a plan and proves it: afterwards the live state is read and planned again, and only an empty plan counts as converged. What
 * the plan could not know of (another writer) is planned again, a bounded number of times. Promises exactly one outcome for each step, no
 * write after a stop but those that close an open gap, and no exception for what the server or the network does.
 */
export async function applyPlan(plan: Plan, context: ApplyContext): Promise<ApplyReport> {
  const session = new Session(context);
  try {
    await session.record({ event: 'pass-started' });
    const report = await applyRounds(plan, session);
    await session.record({ event: 'pass-ended' });
    return report;
  } finally {
    session.end();
  }
}

interface Progress {
  readonly outcomes: Outcome[];
  /** Steps that failed for good, by what they do. */
  readonly givenUp: Set<string>;
  /** How often each part of what was done had to be done again. */
  readonly done: Map<string, number>;
  leftOpen: readonly Traffic[];
}

async function applyRounds(first: Plan, session: Session): Promise<ApplyReport> {
  const { context } = session;
  const planned = new Set(first.steps.flatMap(partsOf));
  const progress: Progress = { outcomes: [], givenUp: new Set(), done: new Map(), leftOpen: [] };
  if (first.steps.length === 0) return reportOf('converged', progress, session, []);
  let plan = first;
  for (let round = 1; ; round++) {
    session.known.learn(plan);
    session.rebuilt = 'no';
    if (round === 1 && context.afterOutage) session.noteOutage(session.known.count());
    const result = await runRound(plan, session, (step) => progress.givenUp.has(keyOf(step)));
    learn(progress, result, session);
    if (session.stopped !== null) return reportOf(endAfterStop(session), progress, session, namesLeft(plan, result));
    const verified = await context.replan({
      plan,
      signal: session.soft,
      refusesCollisions: session.collisionsSeen,
      knownRules: session.known.count(),
    });
    if (!verified.ok) {
      say(session, 'not-verified', `The result could not be verified (${verified.error.message}).`);
      return reportOf('failed', progress, session, namesLeft(plan, result));
    }
    const rest = verified.value;
    // What a way back leaves for others changed how people sign in, while this apply wrote.
    const told = new Set([...first.problems, ...session.problems].map(({ summary }) => summary));
    for (const one of rest.problems) if (one.code === 'locks-out' && !told.has(one.summary)) session.problems.push(one);
    if (rest.steps.length === 0) return reportOf('converged', { ...progress, leftOpen: [] }, session, []);
    noteUndone(rest, progress, session);
    const unseen = rest.steps.filter((step) => partsOf(step).some((part) => !planned.has(part))).map(formatStepKey);
    if (!(await maySend(rest, round > context.limits.replans, unseen, progress, session))) {
      // A later plan may have closed what an earlier one had to leave open.
      if (rest.effect.closes.length === 0) progress.leftOpen = [];
      return reportOf('not-converged', progress, session, namesOf(rest.changes));
    }
    const also = `The server changed meanwhile, so this was planned and sent too: ${joinSome(unseen, 5)}.`;
    if (unseen.length > 0) session.problems.push({ code: 'changed-meanwhile', severity: 'warning', summary: also });
    context.logger.info('planning again', { round: round + 1, steps: rest.steps.length });
    plan = renamed(rest, round + 1);
  }
}

/** Whether what is left is sent too; says what keeps it from that. */
async function maySend(rest: Plan, isLast: boolean, unseen: readonly string[], progress: Progress, session: Session) {
  const { givenUp, outcomes } = progress;
  const { limits, onReplan } = session.context;
  const isUnapproved = limits.onlyApproved === true && unseen.length > 0;
  const also = isUnapproved ? ['It is not in the plan that was approved.'] : [];
  const why = [...rest.refusals.map(({ summary }) => summary), ...also];
  if (why.length > 0) say(session, 'replan-refused', `What is left was refused: ${why.join(' ')}`);
  if (isLast || why.length > 0 || rest.steps.every((step) => givenUp.has(keyOf(step)))) return false;
  const obstacles = (await onReplan?.(rest, outcomes)) ?? [];
  for (const one of obstacles) session.problems.push(one);
  return obstacles.length === 0;
}

function learn(progress: Progress, result: RoundResult, session: Session): void {
  progress.leftOpen = [...progress.leftOpen, ...result.leftOpen];
  for (const one of result.outcomes) {
    const { step, outcome, mayLand } = one;
    progress.outcomes.push(one);
    const key = keyOf(step);
    if (outcome === 'done')
      for (const part of partsOf(step)) progress.done.set(part, (progress.done.get(part) ?? 0) + 1);
    // After a surprise a failed or dropped step may well work in the next plan.
    if (!isSuccess(one) && (outcome !== 'unknown' || mayLand) && !result.surprised) progress.givenUp.add(key);
  }
  session.context.logger.debug('round ended', { steps: result.outcomes.length, surprised: result.surprised });
}

/** Something that this apply did has to be done again: another writer, or a server that does not keep what it accepts. */
function noteUndone(rest: Plan, progress: Progress, session: Session): void {
  const timesOf = (steps: readonly Step[]): number =>
    steps.flatMap(partsOf).reduce((most, part) => Math.max(most, progress.done.get(part) ?? 0), 0);
  const again = rest.steps.filter((step) => timesOf([step]) > 0);
  if (again.length === 0) return;
  const times = timesOf(again);
  const names = namesOf(again.flatMap((step) => rest.changes[step.change] ?? []));
  const index = session.problems.findIndex(({ code }) => code === 'undone-by-other');
  if (index >= 0) session.problems.splice(index, 1);
  const summary = `Applied ${times === 1 ? 'once' : `${times} times`} and undone each time: ${joinSome(names, 5)}.`;
  const hint = 'Another writer changes the same rules, or the server accepts the value without keeping it.';
  session.problems.push(makeWarning('undone-by-other', summary, hint));
}

function reportOf(end: ApplyEnd, progress: Progress, session: Session, notConverged: readonly string[]): ApplyReport {
  const { firstWriteAt, lastAnswerAt, throttle } = session;
  return {
    end,
    // Where all is as planned, what was not sent for what others did has failed nobody.
    outcomes: progress.outcomes.map((one) =>
      end === 'converged' && judgeSettled(one).again === 'replanned' ? { ...one, outcome: 'dropped' } : one,
    ),
    problems: session.problems,
    leftOpen: progress.leftOpen,
    notConverged,
    wrote: session.wrote,
    durationMs: firstWriteAt === null ? 0 : lastAnswerAt - firstWriteAt,
    enforcedInMs: throttle.enforcedInMs(),
  };
}

function endAfterStop(session: Session): ApplyEnd {
  const { totalTimeoutMs } = session.context.limits;
  const why = session.stopped;
  if (why === 'unauthorized') say(session, why, 'The API refused the token during the apply; no new step was started.');
  if (why === 'deadline')
    say(session, why, `The apply took longer than its limit of ${totalTimeoutMs / 1000} s and stopped.`);
  return why === 'unauthorized' ? 'failed' : 'stopped';
}

function say(session: Session, code: ProblemCode, summary: string): void {
  session.problems.push({ code, severity: 'error', summary });
}

/** What a step does, whatever plan it stands in. Fields of the Configuration that are left are no other step. */
function keyOf(step: Step): string {
  return step.type === 'configure' ? step.type : formatStepKey(step);
}

/** What of a step has to be in an approved plan: each field, and for a PATCH of a rule which rule it overwrites. */
function partsOf(step: Step): readonly string[] {
  return step.type === 'configure' ? step.fields : [formatStepKey(step) + (step.type === 'update' ? step.live.id : '')];
}

/** Steps of a later plan of the same apply get ids of their own. */
function renamed(plan: Plan, round: number): Plan {
  const rename = (id: string): string => `r${round}-${id}`;
  return {
    ...plan,
    steps: plan.steps.map((step) => ({
      ...step,
      id: rename(step.id),
      after: step.after.map(rename),
      gap: step.gap === null ? null : rename(step.gap),
    })),
    exposure: plan.exposure.map((one) => ({ ...one, fromStep: rename(one.fromStep), toStep: rename(one.toStep) })),
  };
}

function namesLeft(plan: Plan, result: RoundResult): readonly string[] {
  const open = result.outcomes.filter(({ outcome }) => outcome !== 'done' && outcome !== 'skipped');
  return namesOf([...new Set(open.map(({ step }) => step.change))].flatMap((index) => plan.changes[index] ?? []));
}

function namesOf(changes: readonly Change[]): readonly string[] {
  return changes.flatMap((change) => {
    if (change.action === 'keep' || change.action === 'skip') return [];
    const live = change.kind === 'Rule' ? change.live : null;
    return [change.name ?? (live === null ? change.kind : `${formatRuleKey(live.rule)} (${live.id})`)];
  });
}
