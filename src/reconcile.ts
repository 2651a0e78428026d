import { applyPlan } from './apply/apply.ts';
import { readLive } from './apply/read.ts';
import { hasErrors } from './model/problem.ts';
import type { Approve, PassDependencies, PassResult } from './pass.ts';
import { awaitKernel, observeKernel, rulesToRepair } from './pass-enforcement.ts';
import { applyContext, ended, narrowed, planFrom, readContext, readDesired, withUnknownUsers } from './pass-stages.ts';
import { digestPlan } from './plan/digest.ts';

/**
 * One pass, from manifests to a report. `--plan`, an apply and the controller all call this; they differ in `approve` alone,
 * which is asked for a plan that no guard refused (null: only plan). Never throws for what manifests, network or server do.
 */
export async function reconcile(whole: PassDependencies, approve: Approve | null): Promise<PassResult> {
  const source = await whole.source.read(whole.stop);
  if (source.content === null || hasErrors(source.problems)) return ended('invalid', { source });

  const desired = await readDesired(source.content, whole);
  if (!desired.ok) return ended('unreadable', { source, failure: desired.error });
  if (desired.value.state === null) return ended('invalid', { source, desired: desired.value });

  const { pass, state } = narrowed(whole, desired.value.state);
  const live = await readLive(readContext(pass, state), pass.desired.scope, pass.memory.knownRules);
  if (!live.ok) return ended('unreadable', { source, desired: desired.value, failure: live.error });

  const kernel = await observeKernel(pass, state, live.value.live);
  const plan = planFrom(state, live.value.live, pass, { notEnforced: rulesToRepair(pass, kernel) });
  const invalid = withUnknownUsers(plan, desired.value);
  if (invalid !== null) return ended('invalid', { source, desired: invalid });
  const digest = digestPlan(plan, { desired: state, live: live.value.live, key: pass.options.fingerprintKey });
  const found = { source, desired: desired.value, live: live.value.live, plan, digest, kernel };
  if (plan.refusals.length > 0 && !whole.approvals?.includes(digest.plan)) return ended('refused', found);
  if (plan.steps.length === 0) {
    return ended('in-sync', { ...found, kernel: await awaitKernel(pass, state, kernel, false) });
  }
  if (approve === null) return ended('planned', found);
  if (!(await approve(plan, desired.value, digest))) return ended('declined', found);

  const apply = await applyPlan(plan, applyContext(pass, state, live.value));
  return ended('applied', { ...found, apply, kernel: await awaitKernel(pass, state, null, true) });
}
