import { systemClock } from '../../adapters/clock.ts';
import type { Desired } from '../../desired/context.ts';
import { compareProblems } from '../../model/problem.ts';
import type { Approve, PassResult } from '../../pass.ts';
import type { Plan } from '../../plan/plan.ts';
import { reconcile } from '../../reconcile.ts';
import type { RunReport } from '../../report/run-report.ts';
import { count } from '../../report/summary.ts';
import type { Invocation } from '../command.ts';
import { exitCodeOf } from '../exit-code.ts';
import { isInvalid, strictly } from '../manifests.ts';
import { pathOperand } from '../path-operand.ts';
import { explainReadFailure } from '../read-failure.ts';
import { type Screen, screenOf } from '../screen.ts';
import type { TokenSource } from '../token.ts';
import { wirePass } from '../wire.ts';

/** `reconcile --plan PATH` and `reconcile PATH`: one pass, shown, perhaps asked about, perhaps applied. */
export async function run(invocation: Invocation): Promise<number> {
  const { settings } = invocation;
  const screen = screenOf(invocation);
  const { path } = pathOperand(invocation, '');
  const wired = await wirePass(invocation, path, null);
  try {
    const approve: Approve = (plan, desired, digest) =>
      agree({ invocation, screen, plan, desired, digest: digest.plan });
    const result = await reconcile({ ...wired.pass, onOutcome: screen.onOutcome }, settings.plan ? null : approve);
    screen.finish(reportOf(result, invocation, wired.token));
    return exitCode(result, invocation);
  } finally {
    await wired.close();
  }
}

interface Question {
  readonly invocation: Invocation;
  readonly screen: Screen;
  readonly plan: Plan;
  readonly desired: Desired;
  readonly digest: string;
}

/** Shows the plan and asks when somebody is there to answer; without a terminal the guards alone decide. */
async function agree({ invocation, screen, plan, desired, digest }: Question): Promise<boolean> {
  const { settings, terminal } = invocation;
  if (isInvalid(desired.problems, settings)) return false;
  const asks = terminal.stdinIsTerminal && !settings.yes;
  const problems = [...desired.problems, ...plan.problems].sort(compareProblems);
  screen.showPlan({ ...emptyReport, plan, digest, problems, userNames: desired.state?.userNames ?? new Map() }, asks);
  if (!asks) return true;
  const answer = await terminal.ask(`\nSend ${count(plan.steps.length, 'request')}? [y/N] `, terminal.stop);
  return /^y(es)?$/i.test(answer?.trim() ?? '');
}

const emptyReport = { revision: null, digest: null, apply: null, approved: false, snapshot: null, base: null };

function reportOf(result: PassResult, { settings }: Invocation, token: TokenSource): RunReport {
  const failure =
    result.failure === null ? [] : [explainReadFailure(result.failure, token.read, systemClock.wallTime())];
  return {
    ...emptyReport,
    revision: result.content?.revision ?? null,
    plan: result.plan,
    digest: result.digest?.plan ?? null,
    approved: result.end !== 'refused' && (result.plan?.refusals.length ?? 0) > 0,
    apply: result.apply,
    problems: [...strictly(result.problems, settings), ...failure],
    userNames: result.desired?.state?.userNames ?? new Map(),
    ...(result.kernel === undefined ? {} : { kernel: result.kernel }),
  };
}

/** The exit code of a pass, the same in every output mode. */
function exitCode(result: PassResult, { settings }: Invocation): number {
  const { end, apply, desired } = result;
  return exitCodeOf({
    invalid: end === 'invalid' || isInvalid(desired?.problems ?? [], settings),
    refused: end === 'refused',
    wrote: apply?.wrote ?? false,
    missing: (apply !== null && apply.end !== 'converged') || lacksEnforcement(result, settings),
    failed: end === 'unreadable' || end === 'declined',
    pending: end === 'planned',
    detailed: settings.detailedExitcode,
  });
}

/** Whether this run was asked to see it enforced, and did not. */
function lacksEnforcement({ end, kernel }: PassResult, { waitEnforced, repair }: Invocation['settings']): boolean {
  if (end !== 'applied' && end !== 'in-sync') return false;
  return (waitEnforced !== null || repair) && kernel?.report.state !== 'enforced';
}
