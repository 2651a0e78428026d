import { setTimeout as wait } from 'node:timers/promises';
import type { Clock } from '../ports.ts';

/** The process's own time and chance. */
export const systemClock: Clock = {
  now: () => performance.now(),
  wallTime: () => Date.now(),
  random: () => Math.random(),
  async sleep(ms, signal) {
    if (signal?.aborted) return;
    try {
      await wait(ms, undefined, signal === undefined ? {} : { signal });
    } catch (error) {
      if (!signal?.aborted) throw error;
    }
  },
};
