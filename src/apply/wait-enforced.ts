import type { Enforcement, EnforcementReport, RuleNames } from '../enforcement/report.ts';
import type { LiveRule } from '../model/rule.ts';
import type { Clock } from '../ports.ts';

/** What a wait for the kernel needs. */
export interface EnforcementWait {
  readonly kernel: Enforcement;
  readonly clock: Clock;
  readonly live: readonly LiveRule[];
  readonly names: RuleNames;
  /** Deadline in ms. */
  readonly timeoutMs: number;
  readonly stop: AbortSignal;
}

/** How a wait ended: the last report, and the ms it took. */
export interface EnforcementWaited {
  readonly report: EnforcementReport;
  readonly waitedMs: number;
}

const firstPauseMs = 50;
const longestPauseMs = 1000;
/** A server that builds its filter adds at least 100 elements a second; without a change for so long it is not building. */
const stillMs = 1000;

/** Checks until the kernel holds every live rule, cannot be read, the time is up or a stop is asked for. */
export function waitUntilEnforced(wait: EnforcementWait): Promise<EnforcementWaited> {
  return checkUntil(wait, ({ state }) => state !== 'differs');
}

/** Checks until the kernel holds every live rule, or its number of elements has not changed for a second. */
export function waitUntilStill(wait: EnforcementWait): Promise<EnforcementWaited> {
  let elements = -1;
  let since = 0;
  return checkUntil(wait, (report) => {
    if (report.elements !== elements) since = wait.clock.now();
    elements = report.elements;
    return report.state !== 'differs' || wait.clock.now() - since >= stillMs;
  });
}

async function checkUntil(
  { kernel, clock, live, names, timeoutMs, stop }: EnforcementWait,
  done: (report: EnforcementReport) => boolean,
): Promise<EnforcementWaited> {
  const start = clock.now();
  for (let pause = firstPauseMs; ; pause = Math.min(2 * pause, longestPauseMs)) {
    const report = await kernel.check(live, names, stop);
    const waitedMs = clock.now() - start;
    if (done(report) || stop.aborted || waitedMs >= timeoutMs) return { report, waitedMs };
    await clock.sleep(Math.min(pause, Math.max(0, timeoutMs - waitedMs)), stop);
  }
}
