import type { Clock } from '../ports.ts';

/** Nobody asks for a look; with any other trigger somebody does. */
const patient = ['interval', 'retry', 'file', 'released', 'stop'] as const;
export const patientTriggers: ReadonlySet<Trigger> = new Set<Trigger>(patient);
type Impatient = 'start' | 'time' | 'webhook' | 'signal' | 'token' | 'settings' | 'lease' | 'confirmation';

/** Why the loop woke. */
export type Trigger = (typeof patient)[number] | Impatient;

/** Wakes the loop. Any number of calls while a pass runs collapse into one next pass. */
export type Triggers = ReturnType<typeof createTriggers>;

/** So often the wall clock is looked at: no timer knows that the machine slept, or that its clock was set. */
const lookMs = 1000;

/** Triggers that wait by the given clock. */
export function createTriggers(clock: Clock) {
  let pending = new Set<Trigger>();
  let waiting: AbortController | null = null;
  return {
    wake(trigger: Trigger): void {
      pending.add(trigger);
      waiting?.abort();
    },
    /** Waits until something woke the loop, or `ms` have passed or it is `at` (then: `otherwise`, or `time`); takes all that came together. */
    async next(ms: number, otherwise: Trigger, at = Number.POSITIVE_INFINITY): Promise<ReadonlySet<Trigger>> {
      const end = clock.now() + ms;
      for (let left = ms; pending.size === 0 && left > 0; left = end - clock.now()) {
        const untilAt = at - clock.wallTime();
        if (untilAt <= 0) break;
        waiting = new AbortController();
        await clock.sleep(Math.min(left, untilAt, Number.isFinite(at) ? lookMs : left), waiting.signal);
        waiting = null;
      }
      const taken = pending.size > 0 ? pending : new Set<Trigger>([at > clock.wallTime() ? otherwise : 'time']);
      pending = new Set();
      return taken;
    },
  };
}
