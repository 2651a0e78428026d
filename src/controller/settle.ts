/** What is known about how long the source has shown the same content. Times are monotonic, ms. */
export interface Settling {
  readonly revision: string;
  readonly since: number;
}

/** Follows the source from reading to reading: the time runs anew with each other revision. */
export function followRevision(before: Settling | null, revision: string, now: number): Settling {
  return before?.revision === revision ? before : { revision, since: now };
}

/** ms until the content has been stable for `quietMs`; 0 when it has. */
export function untilStable(settling: Settling, quietMs: number, now: number): number {
  return Math.max(0, settling.since + quietMs - now);
}
