import type { ApplyReport, Outcome } from '../apply/outcome.ts';
import { makeError, type Problem } from '../model/problem.ts';
import type { ProblemCode } from '../model/problem-code.ts';
import type { Plan, Step } from '../plan/plan.ts';
import { formatRule } from '../policy/words.ts';
import type { RunReport } from './run-report.ts';

/** The problems of a run and one for each step that failed or is unknown, in order, unless it converged after all. */
export function addFailedSteps({ problems, apply, plan }: RunReport): readonly Problem[] {
  if (apply === null || apply.end === 'converged') return problems;
  const told = new Set(problems.map(({ summary }) => summary));
  const failed = sortOutcomes(apply, plan)
    .filter(({ outcome, message }) => (outcome === 'failed' || outcome === 'unknown') && !told.has(message ?? ''))
    .map((outcome) => problemOf(outcome, plan));
  return [...problems, ...failed];
}

/** The plan's order, not that of completion; steps of plans made on the way come last, in the order in which they ended. */
export function sortOutcomes({ outcomes }: ApplyReport, plan: Plan | null): readonly Outcome[] {
  const position = new Map((plan?.steps ?? []).map((step, index) => [step, index]));
  const place = ({ step }: Outcome): number => position.get(step) ?? position.size;
  return outcomes.toSorted((a, b) => place(a) - place(b));
}

function problemOf(ended: Outcome, plan: Plan | null): Problem {
  const { step, outcome, status, message } = ended;
  const [code, hint] = meaningOf(outcome, status);
  const why = message ?? (status === null ? 'no answer' : String(status));
  const listed = plan?.steps.some(({ id }) => id === step.id) === true;
  const place = listed ? plan?.changes[step.change]?.source : null;
  return makeError(code, `${formatStep(step)}: ${why}`, hint, place ?? undefined);
}

function meaningOf(outcome: Outcome['outcome'], status: number | null): readonly [code: ProblemCode, hint: string] {
  if (outcome === 'unknown')
    return ['step-unknown', 'nobody knows whether it was carried out; run again: a plan starts from what is live'];
  if (status === 401) return ['unauthorized', 'make a new API token as an administrator; `reconcile doctor` says more'];
  if (status === 403) return ['step-forbidden', forbiddenHint];
  if (status === 422)
    return [
      'step-rejected',
      'the server looked at it and said no: mend the manifest, or see docs/reference/server.md for what it takes',
    ];
  return ['step-failed', 'what needs it was not attempted; see the message, and run again when it is mended'];
}

/** What to do about a 403, which Firezone 0.7 itself never answers (observed: recordings/auth). */
export const forbiddenHint =
  'use an API token that an administrator made; Firezone 0.7 itself answers 401 to any other, so a proxy or firewall before it may have refused';

/** A step for people: `s3 create accept 10.0.0.0/8`. */
function formatStep(step: Step): string {
  if (step.type === 'configure') return `${step.id} configure ${step.fields.join(', ')}`;
  const sides = [step.type === 'create' ? [] : step.live.rule, step.type === 'delete' ? [] : step.rule].flat();
  const what = sides.map((rule) => formatRule(rule, new Map())).join(' → ');
  return `${step.id} ${step.type === 'update' ? 'patch' : step.type} ${what}`;
}
