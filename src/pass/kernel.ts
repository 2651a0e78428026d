import { readLive } from '../apply/read.ts';
import { waitUntilEnforced, waitUntilStill } from '../apply/wait-enforced.ts';
import { repairTargets } from '../enforcement/repair.ts';
import { type RuleNames, ruleNames, unreadable } from '../enforcement/report.ts';
import type { LiveRule } from '../model/rule.ts';
import type { DesiredState, LiveState } from '../model/state.ts';
import type { KernelState, PassDependencies, PassEnforcement } from './pass.ts';
import { readContext } from './stages.ts';

/** A server that builds its filter anew takes a second for each 100 rules; below, it is given this long. */
const stillTimeoutMs = 60_000;

/** What the kernel holds of the live rules before anything is planned; null when the pass does not look. */
export async function observeKernel(
  pass: PassDependencies,
  desired: DesiredState,
  live: LiveState,
): Promise<KernelState | null> {
  const { enforcement, stop } = pass;
  if (enforcement === undefined) return null;
  const names = ruleNames(desired.rules);
  if (enforcement.repair) {
    return await waitUntilStill(waitOf(pass, enforcement, { live: live.rules, names, timeoutMs: stillTimeoutMs }));
  }
  return { report: await enforcement.kernel.check(live.rules, names, stop), waitedMs: null };
}

/** The live rules that this pass replaces because the kernel does not hold them. */
export function rulesToRepair(pass: PassDependencies, kernel: KernelState | null): ReadonlySet<string> {
  return kernel === null || pass.enforcement?.repair !== true ? new Set() : repairTargets(kernel.report);
}

/**
 * Waits until the kernel holds what is live now. Without a time to wait: what was seen before, or null after an apply,
 * for the kernel follows only later.
 */
export async function awaitKernel(
  pass: PassDependencies,
  desired: DesiredState,
  before: KernelState | null,
  applied: boolean,
): Promise<KernelState | null> {
  const { enforcement } = pass;
  if (enforcement === undefined || enforcement.waitMs === null) return applied ? null : before;
  if (!applied && enforcement.waitInSync === false) return before;
  if (!applied && before?.report.state === 'enforced') return { ...before, waitedMs: before.waitedMs ?? 0 };
  const reading = await readLive(readContext(pass), pass.desired.scope, null);
  if (!reading.ok) return { report: unreadable(reading.error.message, 0), waitedMs: null };
  const { rules } = reading.value.live;
  return await waitUntilEnforced(
    waitOf(pass, enforcement, { live: rules, names: ruleNames(desired.rules), timeoutMs: enforcement.waitMs }),
  );
}

interface What {
  readonly live: readonly LiveRule[];
  readonly names: RuleNames;
  readonly timeoutMs: number;
}

function waitOf(
  { clock, stop }: PassDependencies,
  { kernel, onCheck }: PassEnforcement,
  what: What,
): Parameters<typeof waitUntilEnforced>[0] {
  return { ...what, enforcement: kernel, clock, stop, ...(onCheck === undefined ? {} : { onCheck }) };
}
