/** First and longest wait after a transient failure, ms. */
const [backoffMs, maxBackoffMs] = [1000, 300_000];

/** A tenth of jitter to either side, so that many sidecars do not ask one server in step. `chance` in [0, 1). */
export function pickInterval(intervalMs: number, chance: number): number {
  return Math.round(intervalMs * (0.9 + 0.2 * chance));
}

/** The wait after the `failures`-th transient failure in a row: doubled each time, randomised, at least what the server asked. */
export function pickBackoff(failures: number, chance: number, askedMs = 0): number {
  const ceiling = Math.min(maxBackoffMs, backoffMs * 2 ** Math.min(failures - 1, 30));
  return Math.max(askedMs, Math.round(ceiling * (0.5 + 0.5 * chance)));
}
