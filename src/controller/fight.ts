/**
 * Detects that another writer undoes our corrections: the same step was needed for drift `threshold` times within the window.
 * From then on that correction waits, twice as long each time, so that two writers do not flap the packet filter for ever.
 */
export interface FightSettings {
  readonly threshold: number;
  readonly windowMs: number;
  readonly firstPauseMs: number;
  readonly maxPauseMs: number;
}

export const defaultFight: FightSettings = {
  threshold: 3,
  windowMs: 14_400_000,
  firstPauseMs: 120_000,
  maxPauseMs: 1_800_000,
};

/** For each kind of correction the times (monotonic, ms) at which it was written. */
export type FightMemory = ReadonlyMap<string, readonly number[]>;

/** Remembers that these corrections were written now, and forgets what lies outside the window. */
export function rememberCorrections(
  memory: FightMemory,
  keys: readonly string[],
  now: number,
  settings: FightSettings,
): FightMemory {
  const next = new Map<string, readonly number[]>();
  for (const [key, times] of memory) {
    const recent = times.filter((time) => now - time < settings.windowMs);
    if (recent.length > 0) next.set(key, recent);
  }
  for (const key of keys) next.set(key, [...(next.get(key) ?? []), now]);
  return next;
}

/** Which of these corrections are part of a fight, and how long to hold them back (0: not now). */
export function findFights(
  memory: FightMemory,
  keys: readonly string[],
  now: number,
  settings: FightSettings,
): { readonly fought: readonly string[]; readonly waitMs: number } {
  let waitMs = 0;
  const fought: string[] = [];
  for (const key of keys) {
    const times = (memory.get(key) ?? []).filter((time) => now - time < settings.windowMs);
    if (times.length < settings.threshold) continue;
    fought.push(key);
    const pause = Math.min(settings.maxPauseMs, settings.firstPauseMs * 2 ** (times.length - settings.threshold));
    waitMs = Math.max(waitMs, (times.at(-1) ?? now) + pause - now);
  }
  return { fought, waitMs: Math.max(0, waitMs) };
}
