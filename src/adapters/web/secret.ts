import { createHash, timingSafeEqual } from 'node:crypto';
import { attempt } from '../../model/result.ts';
import type { Clock } from '../../ports.ts';
import { readOperatorFile } from '../source/regular-file.ts';

/** Whether two texts are equal, in a time that tells nothing about where they differ, nor about their lengths. */
export function isSameSecret(given: string, expected: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return expected !== '' && timingSafeEqual(digest(given), digest(expected));
}

/** A bucket of calls that fills by the monotonic clock: `burst` may come at once, and so many a second after that. */
export function createBucket(clock: Clock, burst: number, perSecond: number) {
  let level = burst;
  let at = clock.now();
  const left = (): boolean => {
    const now = clock.now();
    level = Math.min(burst, level + ((now - at) / 1000) * perSecond);
    at = now;
    return level >= 1;
  };
  return {
    /** Whether a call would be let in. */
    left,
    /** Lets a call in, if one may be. */
    take(): boolean {
      const allowed = left();
      if (allowed) level -= 1;
      return allowed;
    },
  };
}

/** A secret's file, read anew each time; empty when it cannot be read, which lets nobody in. */
export function readSecret(file: string): string {
  return attempt(() => readOperatorFile(file, 65_536).toString('utf8').trim(), '');
}
