import type { Clock } from '../../../src/ports.ts';

interface Sleeper {
  readonly at: number;
  readonly wake: () => void;
}

/** Time that stands still until a test lets it go on: no test waits for real. */
export interface VirtualClock extends Clock {
  /** Lets everything that can run now run, then jumps from sleeper to sleeper until the condition holds. */
  until(condition: () => boolean, maxMs?: number): Promise<void>;
  /** Lets this much time pass, waking sleepers in order. */
  pass(ms: number): Promise<void>;
  /** Moves the monotonic clock on its own, as a suspended process sees it. */
  skip(ms: number): void;
  /** The machine sleeps: the wall clock goes on, and no timer notices. */
  suspend(ms: number): void;
}

export function virtualClock(random: () => number = () => 0.5): VirtualClock {
  let now = 1000;
  let start = 1_700_000_000_000;
  const sleepers = new Set<Sleeper>();
  const settle = async (): Promise<void> => {
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  };
  const next = (): Sleeper | undefined => [...sleepers].sort((a, b) => a.at - b.at)[0];
  const jump = async (limit: number): Promise<boolean> => {
    const first = next();
    if (first === undefined || first.at > limit) return false;
    now = Math.max(now, first.at);
    sleepers.delete(first);
    first.wake();
    await settle();
    return true;
  };
  return {
    now: () => now,
    wallTime: () => start + now,
    random,
    sleep(ms, signal) {
      if (signal?.aborted) return Promise.resolve();
      return new Promise((resolve) => {
        const sleeper = {
          at: now + ms,
          wake: () => {
            signal?.removeEventListener('abort', cancel);
            resolve();
          },
        };
        const cancel = (): void => {
          sleepers.delete(sleeper);
          resolve();
        };
        sleepers.add(sleeper);
        signal?.addEventListener('abort', cancel, { once: true });
      });
    },
    async until(condition, maxMs = 86_400_000) {
      const limit = now + maxMs;
      await settle();
      while (!condition()) {
        if (!(await jump(limit))) throw new Error('nothing is left to wait for, and the condition does not hold');
      }
    },
    async pass(ms) {
      const limit = now + ms;
      await settle();
      while (await jump(limit)) await settle();
      now = limit;
    },
    skip(ms) {
      now += ms;
    },
    suspend(ms) {
      start += ms;
    },
  };
}
