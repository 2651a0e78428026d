import { createHash, timingSafeEqual } from 'node:crypto';

/** Whether two texts are equal, in a time that tells nothing about where they differ, nor about their lengths. */
export function isSameSecret(given: string, expected: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return expected !== '' && timingSafeEqual(digest(given), digest(expected));
}
