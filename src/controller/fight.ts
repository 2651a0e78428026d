// The same step was needed for drift so often within the window.
const threshold = 3;
const windowMs = 14_400_000;
const [firstPauseMs, maxPauseMs] = [120_000, 1_800_000];

/**
 * Detects that another writer undoes our corrections, by the times (monotonic, ms) at which each was written. From then on that
 * correction waits, twice as long each time, so that two writers do not flap the packet filter for ever.
 */
export class FightMemory {
  #corrections: ReadonlyMap<string, readonly number[]> = new Map();

  /** Corrections that another writer keeps undoing. */
  get size(): number {
    return [...this.#corrections.values()].filter((times) => times.length >= threshold).length;
  }

  /** Remembers that these corrections were written now, and forgets what lies outside the window. */
  remember(keys: readonly string[], now: number): void {
    const next = new Map<string, readonly number[]>();
    for (const key of [...this.#corrections.keys(), ...keys]) {
      const recent = this.#recent(key, now);
      if (recent.length > 0) next.set(key, recent);
    }
    for (const key of keys) next.set(key, [...(next.get(key) ?? []), now]);
    this.#corrections = next;
  }

  /** Which of these corrections are part of a fight, and how long to hold them back (0: not now). */
  find(keys: readonly string[], now: number): { readonly fought: readonly string[]; readonly waitMs: number } {
    const fought = keys.filter((key) => this.#recent(key, now).length >= threshold);
    const waitMs = fought.reduce((longest, key) => {
      const times = this.#recent(key, now);
      const pause = Math.min(maxPauseMs, firstPauseMs * 2 ** (times.length - threshold));
      return Math.max(longest, (times.at(-1) ?? now) + pause - now);
    }, 0);
    return { fought, waitMs };
  }

  #recent(key: string, now: number): readonly number[] {
    return (this.#corrections.get(key) ?? []).filter((time) => now - time < windowMs);
  }
}
