import { setTimeout as wait } from 'node:timers/promises';
import type { Clock } from '../ports.ts';

/** The longest that a timer can hold; a longer one would end at once. */
const longestMs = 2 ** 31 - 1;

/** The process's own time and chance. */
export const systemClock: Clock = {
  now: () => performance.now(),
  wallTime: () => Date.now(),
  random: () => Math.random(),
  async sleep(ms, signal) {
    if (signal?.aborted) return;
    await wait(Math.min(ms, longestMs), undefined, signal === undefined ? {} : { signal }).catch((error: unknown) => {
      if (!signal?.aborted) throw error;
    });
  },
};
