/** Time as the database writes it: UTC, microseconds, always later than the time before. */
export interface SimulatorClock {
  readonly now: () => string;
  readonly milliseconds: () => number;
}

/** A clock over milliseconds since 1970 (fractions count), made strictly increasing. */
export function makeClock(milliseconds: () => number): SimulatorClock {
  let last = 0;
  return {
    milliseconds,
    now: () => {
      last = Math.max(Math.floor(milliseconds() * 1000), last + 1);
      const micros = String(last % 1_000_000).padStart(6, '0');
      return `${new Date(Math.floor(last / 1000)).toISOString().slice(0, 19)}.${micros}Z`;
    },
  };
}
