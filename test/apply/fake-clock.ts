import type { Clock, LiveApi } from '../../src/ports.ts';

interface Sleeper {
  readonly at: number;
  wake(): void;
}

/** A clock whose waits cost no time: it jumps to the next waiter once nothing else is going on. */
export interface FakeClock extends Clock {
  /** Counts work that the clock must not jump over. */
  during<T>(work: Promise<T>): Promise<T>;
  /** All waits so far, ms. */
  readonly waits: readonly number[];
}

export function createFakeClock(random: () => number = () => 0.5): FakeClock {
  let now = 1000;
  let busy = 0;
  let generation = 0;
  const sleepers = new Set<Sleeper>();
  const waits: number[] = [];
  const settle = (): void => {
    const mine = ++generation;
    // Two turns of the event loop without news: everything that could run has run.
    setImmediate(() => setImmediate(() => advance(mine)));
  };
  const advance = (mine: number): void => {
    if (mine !== generation || busy > 0 || sleepers.size === 0) return;
    const next = [...sleepers].reduce((a, b) => (b.at < a.at ? b : a));
    now = Math.max(now, next.at);
    next.wake();
    settle();
  };
  return {
    waits,
    now: () => now,
    wallTime: () => now,
    random,
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted === true) return resolve();
        waits.push(ms);
        const sleeper: Sleeper = {
          at: now + ms,
          wake: () => {
            sleepers.delete(sleeper);
            signal?.removeEventListener('abort', sleeper.wake);
            resolve();
            settle();
          },
        };
        sleepers.add(sleeper);
        signal?.addEventListener('abort', sleeper.wake);
        settle();
      }),
    during: async (work) => {
      busy++;
      try {
        return await work;
      } finally {
        busy--;
        settle();
      }
    },
  };
}

/** The same API; the clock stands still while a call is under way. */
export function watched(api: LiveApi, clock: FakeClock): LiveApi {
  return {
    listRules: (signal) => clock.during(api.listRules(signal)),
    getConfiguration: (signal) => clock.during(api.getConfiguration(signal)),
    listUsers: (signal) => clock.during(api.listUsers(signal)),
    createRule: (rule, signal) => clock.during(api.createRule(rule, signal)),
    updateRule: (id, fields, signal) => clock.during(api.updateRule(id, fields, signal)),
    deleteRule: (id, signal) => clock.during(api.deleteRule(id, signal)),
    updateConfiguration: (body, signal) => clock.during(api.updateConfiguration(body, signal)),
  };
}
