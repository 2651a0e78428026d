import { type ApplyReport, judgeSettled, type Outcome } from '../apply/outcome.ts';
import type { Problem } from '../model/problem.ts';
import type { Boundary } from '../model/state.ts';
import type { PassResult } from '../pass/pass.ts';
import { formatStepKey } from '../plan/plan.ts';
import type { SourceContent } from '../ports.ts';
import { type Condition, type ConditionReason, type ConditionUpdate, shortenRevision } from './conditions.ts';
import type { Trigger } from './trigger.ts';

/**
 * How a pass went, for the schedule and the conditions. `good`: converged. `held`: there was something to write and a gate of
 * the controller held it back. `transient`: tried again with backoff. `terminal`: the same plan is not written again until
 * the revision, the settings, the token or the live state changes.
 */
export interface Verdict extends Pick<Condition, 'reason' | 'message'> {
  readonly kind: 'good' | 'held' | 'transient' | 'terminal';
  /** The revision that it is about, where that need not be the one in effect. */
  readonly revision?: string | undefined;
  /** How long the server asked to be left alone, ms. */
  readonly askedMs?: number | undefined;
  /** When to look again, ms from now; absent: with the next interval. */
  readonly waitMs?: number | undefined;
  /** When the window opens for which a plan waits (ms since 1970); null, as if absent: no such time is known. */
  readonly opensAt?: number | null | undefined;
}

/** What running a pass gave. */
export interface PassRun {
  readonly result: PassResult | null;
  readonly verdict: Verdict;
  readonly outcomes: readonly Outcome[];
  /** The revision is in effect, and asks for what it asked for then: what differs from that is drift. */
  readonly isDrift: boolean;
  /** The passes over each part, where both together did not get through. */
  readonly apart?: { readonly rules: PassRun; readonly configuration: PassRun };
  /** Rules that it let begin and end by themselves. */
  readonly turned?: readonly Boundary[];
  /** The pass over the times of what is in force, which came after it. */
  readonly beside?: PassRun | null;
}

/** What a turn came to; of what was run, as much as there is. */
export interface PassEnding extends Partial<PassRun> {
  readonly verdict: Verdict;
  readonly triggers: ReadonlySet<Trigger>;
  readonly started: number;
  readonly from: number;
  readonly content: SourceContent | null;
  /** What is wrong with the newest revision, while an older one is in effect. */
  readonly complaint?: Verdict;
}

/** A newest revision that only waits hides nothing that is wrong with the one in effect, and none hides what needs a person. */
export function showWorse({ verdict, complaint = verdict, beside }: PassEnding): Verdict {
  const said = complaint.kind === 'held' && verdict.kind !== 'good' ? verdict : complaint;
  return [verdict, beside?.verdict ?? said].filter(({ kind }) => kind === 'terminal').reduce(addVerdict, said);
}

/** What is said of a pass, with what went wrong beside it. */
export function addVerdict(said: Verdict, other: Verdict): Verdict {
  // Content that is gone is read from no manifests.
  const isSaid = other.reason === 'ManifestsInvalid' || said.message.includes(other.message);
  if (other.kind === 'held' || other.kind === 'good' || isSaid) return said;
  if (said.kind !== 'held') return { ...said, message: `${said.message}; ${other.message}` };
  return { ...other, message: `${other.message}; ${said.message}`, opensAt: said.opensAt };
}

const terminalReads: ReadonlySet<string> = new Set([
  ...['unauthorized', 'forbidden', 'not-found', 'token'],
  'no-record', // of what is to be taken back: trying again brings nothing
]);

/** Judges one pass. `hold` is what the gate said, when it declined. */
export function judge(result: PassResult, hold: Verdict | null): Verdict {
  switch (result.end) {
    case 'in-sync':
      return goodBut(result, 'InSync', 'the live state is what the revision asks for');
    case 'invalid': {
      const error = result.problems.find(({ severity }) => severity === 'error');
      return { kind: 'terminal', reason: 'ManifestsInvalid', message: error === undefined ? '' : placed(error) };
    }
    case 'unreadable':
      return judgeRead(result);
    case 'refused': {
      const refusals = result.plan?.refusals ?? [];
      const reason = refusals[0]?.code === 'clock-differs' ? 'ClockDiffers' : 'Refused';
      return { kind: 'terminal', reason, message: refusals.slice(0, 5).map(joinTexts).join(' Also: ') };
    }
    case 'planned':
    case 'declined':
      return hold ?? { kind: 'held', reason: 'Suspended', message: 'the plan was not applied' };
    case 'applied':
      return judgeApply(result);
  }
}

function judgeRead({ failure }: PassResult): Verdict {
  const { code = '', message = '', retryAfterMs: askedMs } = failure ?? {};
  if (code === 'reader-died') return { kind: 'transient', reason: 'SourceFailed', message };
  const reason = ['unauthorized', 'forbidden', 'token'].includes(code) ? 'Unauthorized' : 'ApiUnreachable';
  return { kind: terminalReads.has(code) ? 'terminal' : 'transient', reason, message, askedMs };
}

/** In effect, but not good where a field of the Configuration is known to differ and lacks a secret to be sent. */
function goodBut(result: PassResult, reason: Verdict['reason'], message: string): Verdict {
  const [first, ...others] = (result.plan?.problems ?? []).filter(({ code }) => code === 'unsent-field');
  const clock = result.problems.find(({ code }) => code === 'clock-differs');
  if (clock !== undefined) return { kind: 'held', reason: 'ClockDiffers', message: joinTexts(clock) };
  if (first === undefined) return { kind: 'good', reason, message };
  const more = others.length > 0 ? `; and ${others.length} more fields` : '';
  return { kind: 'terminal', reason: 'SecretMissing', message: `${placed(first)}${more}` };
}

/** Whether all of the revision that can be written is in effect; of rules that wait for a clock, what they were before. */
export function isInForce({ kind, reason }: Verdict): boolean {
  return kind === 'good' || reason === 'SecretMissing' || (reason === 'ClockDiffers' && kind === 'held');
}

/** `, but for this: …`: what is not as before though all else was taken back, or may not be (for `openMs`); empty for nothing. */
export function explainLeft(result: PassResult | null, openMs: number): string {
  const left: readonly string[] = ['waits-for-secret', 'locks-out', 'not-gone-back', 'clock-differs'];
  const summaries = result?.problems.flatMap(({ code, summary }) => (left.includes(code) ? [summary] : [])) ?? [];
  const open =
    'A request without an answer may still be carried out: it is looked at once more, and a newer revision waits.';
  const all = openMs > 0 ? [...summaries, open] : summaries;
  return all.length === 0 ? '' : `, but for this: ${all.join(' ')}`;
}

/** Nothing may be written, or nothing can be told, or what nobody confirmed is taken back first. */
const heldForAll: ReadonlySet<ConditionReason> = new Set([
  ...(['Suspended', 'Standby', 'Stopped', 'Unauthorized', 'ClockDiffers'] as const),
  'AwaitingConfirmation',
]);

/** Whether what ended need not wait for this run to get through. */
export function waits(run: PassRun): boolean {
  const { verdict, apart } = run;
  const mayEnd = !isInForce(verdict) && verdict.kind !== 'transient' && !heldForAll.has(verdict.reason);
  return mayEnd || isBlind(run) || (apart !== undefined && waits(apart.rules));
}

/** Whether the manifests, or the users whom they name, could not be had. Ends do without them. */
export function isBlind({ verdict, result }: PassRun): boolean {
  return verdict.reason === 'ManifestsInvalid' || (verdict.kind === 'transient' && result?.desired === null);
}

function judgeApply(result: PassResult): Verdict {
  const report = result.apply;
  if (report === null) return { kind: 'transient', reason: 'ApplyFailed', message: 'the apply gave no report' };
  if (report.end === 'converged')
    return goodBut(result, 'Applied', 'the revision was applied, and a new read found nothing to do');
  if (report.end === 'stopped')
    return { kind: 'held', reason: 'Stopped', message: 'the apply was stopped before its end' };
  const failed = findUnfinished(report.outcomes).filter((one) => one.outcome !== 'dropped');
  if (failed.some((one) => one.status === 401))
    return { kind: 'terminal', reason: 'Unauthorized', message: textOfFailed(report, failed) };
  if (report.end === 'not-converged' && failed.length === 0) {
    const names = report.notConverged.slice(0, 5).join(', ');
    const message = names === '' ? textOfFailed(report, failed) : `not converged: ${names}`;
    return { kind: 'transient', reason: 'NotConverging', message };
  }
  const kind = isRefusedForGood(report.outcomes) ? 'terminal' : 'transient';
  return { kind, reason: 'ApplyFailed', message: textOfFailed(report, findDecisive(report.outcomes)) };
}

/** Whether the server looked at each request that failed and said no: asking again with the same bytes brings the same. */
export function isRefusedForGood(outcomes: readonly Outcome[]): boolean {
  const decisive = findDecisive(outcomes);
  return decisive.length > 0 && decisive.every((one) => judgeSettled(one).again === 'never');
}

/** What failed by itself: a rule that was put back because another was refused is no reason to try that one again. */
function findDecisive(outcomes: readonly Outcome[]): readonly Outcome[] {
  return findUnfinished(outcomes).filter((one) => one.outcome !== 'dropped' && one.restored !== true);
}

/** What was not carried out, and was not made up for later in the same apply. */
export function findUnfinished(outcomes: readonly Outcome[]): readonly Outcome[] {
  const last = new Map(outcomes.map((one) => [formatStepKey(one.step), one]));
  return [...last.values()].filter((one) => one.outcome !== 'done' && one.outcome !== 'skipped');
}

function textOfFailed(report: ApplyReport, failed: readonly Outcome[]): string {
  const more = failed.length > 1 ? `; and ${failed.length - 1} more` : '';
  if (failed[0]?.message !== undefined) return `${failed[0].message}${more}`;
  return report.problems[0]?.summary ?? 'some of the plan was not carried out';
}

function placed({ place, summary }: Problem): string {
  return place === undefined ? summary : `${place.file}:${place.line}:${place.column}: ${summary}`;
}

/** Of several parts' verdicts the one that stands for all: the worst. */
export function pickWorst(verdicts: readonly Verdict[]): Verdict {
  const order = { terminal: 3, transient: 2, held: 1, good: 0 } as const;
  const sorted = verdicts.toSorted((a, b) => order[b.kind] - order[a.kind]);
  const first = sorted[0] ?? { kind: 'good' as const, reason: 'InSync' as const, message: '' };
  // One part wrote, the other had nothing to do: together they applied.
  return first.kind === 'good' ? (sorted.find((one) => one.reason === 'Applied') ?? first) : first;
}

/** Whether it is worth trying the rules and the Configuration apart: a refusal or an answer that may concern one of them only. */
export function mayBeOnePart(result: PassResult | null): boolean {
  if (result === null || !result.desired?.state?.configuration) return false;
  if (result.end === 'refused') return true;
  const codes = new Set(['server-error', 'unreadable', 'list-unstable', 'not-json', 'torn-body', 'timeout']);
  return result.end === 'unreadable' && codes.has(result.failure?.code ?? '');
}

/** Two runs, one over each part, as one. `revision`: the one that they bring into effect; null: it is taken back. */
export function joinRuns(rules: PassRun, configuration: PassRun, revision: string | null): PassRun {
  const findFirst = (key: 'waitMs' | 'opensAt'): number | undefined =>
    [rules, configuration].flatMap(({ verdict }) => verdict[key] ?? []).sort((a, b) => a - b)[0];
  const worst = pickWorst([rules.verdict, configuration.verdict]);
  const apart = revision === null ? null : tellApart(rules, configuration, shortenRevision(revision));
  const troubled = [rules, configuration].find((run) => run.verdict.kind !== 'good');
  return {
    result: troubled?.result ?? rules.result,
    verdict: { ...worst, message: apart ?? worst.message, waitMs: findFirst('waitMs'), opensAt: findFirst('opensAt') },
    outcomes: [...rules.outcomes, ...configuration.outcomes],
    isDrift: rules.isDrift,
    apart: { rules, configuration },
  };
}

/** Which part is in effect and what it lacks, and why the other is not. Null: both are or neither is, or the scope has no rules. */
function tellApart(rules: PassRun, configuration: PassRun, revision: string): string | null {
  const [isDone, isToo] = [rules, configuration].map(({ verdict }) => isInForce(verdict));
  if (isDone === isToo || (isDone && rules.result?.plan?.changes.length === 0)) return null;
  const [{ verdict: done }, { verdict: left }] = isDone ? [rules, configuration] : [configuration, rules];
  const but = done.kind === 'good' ? '' : ` but for this: ${done.message.replace(/\.$/, '')};`;
  if (isDone) return `the rules of ${revision} are in effect,${but} its Configuration is not: ${left.message}`;
  return `the Configuration of ${revision} is in effect,${but} its rules are not: ${left.message}`;
}

/** Number of live rules after a pass; null: it did not see them. */
export function countLiveRules(result: PassResult | null): number | null {
  if (result === null || result.live === null) return null;
  const more = { create: 1, delete: -1, update: 0, configure: 0 };
  const done = (result.apply?.outcomes ?? []).filter(({ outcome }) => outcome === 'done');
  return done.reduce((sum, { step }) => sum + more[step.type], result.live.rules.length);
}

/** The conditions after a pass. `badSettings`: why the operator's newest settings are not in force; null: they are. */
export function describeConditions(
  { kind, reason, message }: Verdict,
  context: { readonly revision: string | null; readonly failures: number; readonly badSettings: string | null },
): readonly ConditionUpdate[] {
  const { revision, failures, badSettings } = context;
  const isStalled = kind === 'terminal' || badSettings !== null;
  const status = kind === 'good' ? 'True' : reason === 'Standby' ? 'Unknown' : 'False';
  const applied = kind === 'good' && revision !== null ? `${shortenRevision(revision)}: ` : '';
  const stalled = badSettings === null ? { reason, message } : { reason: 'BadSettings' as const, message: badSettings };
  return [
    { type: 'Ready', status, reason, message: `${applied}${message}` },
    isStalled
      ? { type: 'Stalled', status: 'True', ...stalled }
      : { type: 'Stalled', status: 'False', reason: 'Progress', message: '' },
    kind === 'transient'
      ? { type: 'Reconciling', status: 'True', reason: 'Retrying', message: `failed ${failures} times in a row` }
      : reason === 'Settling'
        ? { type: 'Reconciling', status: 'True', reason, message }
        : { type: 'Reconciling', status: 'False', reason: 'Idle', message: '' },
  ];
}

/** What is wrong and what to do, as one text. */
export function joinTexts({ summary, hint }: { readonly summary: string; readonly hint?: string }): string {
  if (!hint) return summary;
  return summary.endsWith('.') ? `${summary} ${hint}` : `${summary}; ${hint}`;
}
