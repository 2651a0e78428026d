import { applyPlan } from './apply/apply.ts';
import { readLive } from './apply/read.ts';
import { checkClock } from './pass/clock.ts';
import { awaitKernel, decidesPlan, findKernelHints, observeKernel } from './pass/kernel.ts';
import type { Approve, PassDependencies, PassResult } from './pass/pass.ts';
import {
  endPass,
  makeApplyContext,
  makePlanInput,
  planStates,
  readContext,
  readDesired,
  restrictToLive,
  restrictToPart,
} from './pass/stages.ts';
import type { SourceContent } from './ports.ts';

/**
 * One pass, from the content of a source to a report. `--plan`, an apply, a plan against a snapshot and the controller all call
 * this; they differ in `approve` alone, which is asked for a plan that no guard refused (null: only plan). Never throws for
 * what manifests, network or server do.
 */
export async function reconcile(
  content: SourceContent,
  whole: PassDependencies,
  approve: Approve | null,
): Promise<PassResult> {
  const built = await readDesired(content, whole);
  if (!built.ok) return endPass('unreadable', { content, failure: built.error });
  const { desired } = built.value;
  if (desired.state === null) return endPass('invalid', { content, desired });

  const asked = restrictToPart(whole, desired.state);
  const { desired: context, memory } = asked.pass;
  const reading = await readLive(readContext(asked.pass, asked.state), context.scope, memory.knownRules);
  if (!reading.ok) return endPass('unreadable', { content, desired, failure: reading.error });
  const { live, serverAheadMs } = reading.value;

  const { problems, state: then, refusal } = checkClock(desired.state, reading.value, asked.pass);
  const inForce = { ...desired, state: then, problems: [...desired.problems, ...problems] };
  const wanted = restrictToPart(whole, then).state;
  const { pass, state } = restrictToLive(asked.pass, wanted, live);

  const kernel = decidesPlan(pass) ? await observeKernel(pass, state, live) : undefined;
  const input = makePlanInput(state, live, pass, findKernelHints(pass, kernel));
  const planned = planStates(input, { ...built.value, desired: inForce });
  if (planned.desired.state === null) return endPass('invalid', { content, desired: planned.desired });
  const { plan, digest } = planned;
  const seen = { content, desired: planned.desired, live, serverAheadMs };
  const look = async () => ({ kernel: kernel ?? (await observeKernel(pass, state, live)) });
  // Without a digest nobody can approve it.
  if (refusal !== null)
    return endPass('refused', { ...seen, ...(await look()), plan: { ...plan, refusals: [refusal, ...plan.refusals] } });
  const found = { ...seen, plan, digest };
  if (plan.refusals.length > 0 && !whole.approvals?.includes(digest.plan))
    return endPass('refused', { ...found, ...(await look()) });
  if (plan.steps.length === 0)
    return endPass('in-sync', { ...found, kernel: await awaitKernel(pass, state, (await look()).kernel, null) });
  if (approve === null) return endPass('planned', { ...found, ...(await look()) });
  if (!(await approve(plan, planned.desired, digest))) return endPass('declined', { ...found, ...(await look()) });

  const origin = { revision: content.revision, plan: digest.plan };
  const apply = await applyPlan(plan, makeApplyContext(asked.pass, wanted, reading.value, origin));
  return endPass('applied', { ...found, apply, kernel: await awaitKernel(pass, state, undefined, apply) });
}
