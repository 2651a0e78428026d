import type { Clock } from '../ports.ts';

/** Why the loop woke. All but `interval` and `retry` pre-empt a backoff; a new revision does so by itself. */
export type Trigger =
  | 'start'
  | 'interval'
  | 'retry'
  | 'file'
  | 'webhook'
  | 'signal'
  | 'token'
  | 'settings'
  | 'lease'
  | 'stop';

/** Wakes the loop. Any number of calls while a pass runs collapse into one next pass. */
export interface Triggers {
  wake(trigger: Trigger): void;
  /** Waits until something woke the loop or `ms` have passed (then: `otherwise`); takes all that came together. */
  next(ms: number, otherwise: Trigger): Promise<ReadonlySet<Trigger>>;
}

/** Triggers that wait by the given clock. */
export function createTriggers(clock: Clock): Triggers {
  let pending = new Set<Trigger>();
  let waiting: AbortController | null = null;
  return {
    wake(trigger) {
      pending.add(trigger);
      waiting?.abort();
    },
    async next(ms, otherwise) {
      if (pending.size === 0) {
        waiting = new AbortController();
        await clock.sleep(ms, waiting.signal);
        waiting = null;
      }
      const taken = pending.size === 0 ? new Set<Trigger>([otherwise]) : pending;
      pending = new Set();
      return taken;
    },
  };
}
