import type { ApplyReport } from '../apply/outcome.ts';
import { readLive } from '../apply/read.ts';
import { collectRuleNames, type KernelState, repairTargets, reportUnreadable } from '../enforcement/report.ts';
import type { LiveRule } from '../model/rule.ts';
import { type DesiredState, findNextBoundary, type LiveState } from '../model/state.ts';
import { mayRebuild } from '../plan/plan.ts';
import type { PassDependencies, PassEnforcement } from './pass.ts';
import { readContext } from './stages.ts';

/** A server that builds its filter anew takes a second for each 100 rules; below, it is given this long. */
const stillTimeoutMs = 60_000;

/** Whether the plan depends on what the kernel holds. Else the look, which may take long, comes last. */
export function decidesPlan({ enforcement, options: { failOn, goesBack } }: PassDependencies): boolean {
  return goesBack !== true && (enforcement?.repair === true || failOn.includes('not-enforced'));
}

/** No look takes longer, ms. */
const longestLookMs = 300_000;

/** Ends a look of a sidecar, after 500 ms or later, once it is time for what it does next: after `since` a rule begins or ends, or it goes back. */
function boundLook(pass: PassDependencies, desired: DesiredState, since = desired.at ?? pass.clock.wallTime()) {
  const { clock, base, stop, pendingUntil } = pass;
  if (pendingUntil === undefined) return stop;
  const next = Math.min(findNextBoundary(desired, since), findNextBoundary(base ?? desired, since));
  const leftMs = Math.min(pendingUntil ?? next, next) - clock.wallTime();
  if (leftMs > longestLookMs) return stop;
  // Not `AbortSignal.timeout`: Node 20 forgets one that nothing else holds.
  const over = new AbortController();
  void clock.sleep(Math.max(500, leftMs), stop).then(() => over.abort());
  return AbortSignal.any([stop, over.signal]);
}

/** What the kernel holds of the live rules; undefined when the pass does not look. */
export async function observeKernel(pass: PassDependencies, desired: DesiredState, live: LiveState) {
  const { enforcement, clock, stop, agreedAt } = pass;
  if (enforcement === undefined || stop.aborted) return undefined;
  const names = collectRuleNames(desired.rules);
  if (enforcement.repair && decidesPlan(pass))
    return await waitUntilStill({ ...enforcement, clock, stop, live: live.rules, names, timeoutMs: stillTimeoutMs });
  const signal = boundLook(pass, desired, agreedAt);
  return { report: await enforcement.kernel.check(live.rules, names, signal), waitedMs: null };
}

/** What the look at the kernel adds to a plan's input. */
export function findKernelHints(pass: PassDependencies, kernel: KernelState | undefined) {
  const notEnforced = kernel && pass.enforcement?.repair ? repairTargets(kernel.report) : new Set<string>();
  if (kernel === undefined || kernel.report.state === 'enforced' || notEnforced.size > 0) return { notEnforced };
  const { message, findings } = kernel.report;
  const what = message ?? `${findings.length === 1 ? 'one difference' : `${findings.length} differences`}`;
  return { notEnforced, kernelDiffers: `The kernel is not known to hold the live rules: ${what}.` };
}

/** Beyond the time in which the filter is expected to follow an apply, a run that was not told a time waits this long, ms. */
const followSlackMs = 3000;

/** The last look at the kernel: waits until it holds what is live, after an apply always; undefined when an apply was stopped. */
export async function awaitKernel(
  pass: PassDependencies,
  desired: DesiredState,
  before: KernelState | undefined,
  applied: ApplyReport | null,
): Promise<KernelState | undefined> {
  const { enforcement, clock } = pass;
  if (enforcement === undefined || (applied !== null && pass.stop.aborted)) return before;
  const { waitMs, waitInSync } = enforcement;
  if (applied === null && (waitMs === null || waitInSync === false)) return before;
  if (applied === null && before?.report.state === 'enforced') return { ...before, waitedMs: before.waitedMs ?? 0 };
  const reading = await readLive(readContext(pass), pass.desired.scope, null);
  if (!reading.ok) return { report: reportUnreadable(reading.error.message, 0), waitedMs: null };
  const [live, names] = [reading.value.live.rules, collectRuleNames(desired.rules)];
  const timeoutMs = waitMs ?? 1.5 * (applied?.enforcedInMs ?? 0) + followSlackMs;
  const stop = boundLook(pass, desired);
  const last = await waitUntilEnforced({ ...enforcement, clock, stop, live, names, timeoutMs });
  learnSlowness(enforcement, applied, last);
  return last;
}

/** Shorter expectations say more about the looks, which are up to a second apart, than about the filter. */
const measurableMs = 2000;

/** Corrects the next estimate by how long this one proved to be. One apply is enough: the filter works at a steady rate. */
function learnSlowness({ learnt }: PassEnforcement, applied: ApplyReport | null, last: KernelState): void {
  if (learnt === undefined || applied === null || last.report.state !== 'enforced') return;
  const { durationMs, enforcedInMs, outcomes } = applied;
  const rebuilt = outcomes.some(({ step }) => mayRebuild(step));
  if (rebuilt || enforcedInMs === null || enforcedInMs < measurableMs) return;
  learnt.slowness *= (durationMs + (last.waitedMs ?? 0)) / (durationMs + enforcedInMs);
}

/** What a wait for the kernel needs. */
interface EnforcementWait extends Pick<PassEnforcement, 'kernel'>, Pick<PassDependencies, 'clock' | 'stop'> {
  readonly live: readonly LiveRule[];
  readonly names: ReturnType<typeof collectRuleNames>;
  readonly timeoutMs: number;
}

const firstPauseMs = 50;
const longestPauseMs = 1000;
/** A server that builds its filter adds at least 100 elements a second; without a change for so long it is not building. */
const stillMs = 1000;

/** Checks until the kernel holds every live rule, or its number of elements has not changed for a second. */
export function waitUntilStill(wait: EnforcementWait): Promise<KernelState> {
  let elements = -1;
  let since = 0;
  return waitUntilEnforced(wait, (report) => {
    if (report.elements !== elements) since = wait.clock.now();
    elements = report.elements;
    return wait.clock.now() - since >= stillMs;
  });
}

/** Checks until the kernel holds every live rule, cannot be read or is done otherwise, the time is up or a stop is asked for. */
export async function waitUntilEnforced(
  { kernel, clock, live, names, timeoutMs, stop }: EnforcementWait,
  isDone: (report: KernelState['report']) => boolean = () => false,
): Promise<KernelState & { readonly waitedMs: number }> {
  const start = clock.now();
  for (let pause = firstPauseMs; ; pause = Math.min(2 * pause, longestPauseMs)) {
    const report = await kernel.check(live, names, stop);
    const waitedMs = clock.now() - start;
    if (isDone(report) || report.state !== 'differs' || waitedMs >= timeoutMs) return { report, waitedMs };
    await clock.sleep(Math.min(pause, Math.max(0, timeoutMs - waitedMs)), stop);
    if (stop.aborted) return { report, waitedMs };
  }
}
