/** When the loop looks again; all times in ms. */
export interface ScheduleSettings {
  /** Between passes while all is well. */
  readonly intervalMs: number;
  /** First and longest wait after a transient failure. */
  readonly backoffMs: number;
  readonly maxBackoffMs: number;
}

export const defaultSchedule: ScheduleSettings = { intervalMs: 60_000, backoffMs: 1000, maxBackoffMs: 300_000 };

/** A tenth of jitter to either side, so that many sidecars do not ask one server in step. `chance` in [0, 1). */
export function pickInterval(settings: ScheduleSettings, chance: number): number {
  return Math.round(settings.intervalMs * (0.9 + 0.2 * chance));
}

/** The wait after the `failures`-th transient failure in a row: doubled each time, randomised, at least what the server asked. */
export function pickBackoff(settings: ScheduleSettings, failures: number, chance: number, askedMs = 0): number {
  const ceiling = Math.min(settings.maxBackoffMs, settings.backoffMs * 2 ** Math.min(failures - 1, 30));
  return Math.max(askedMs, Math.round(ceiling * (0.5 + 0.5 * chance)));
}
