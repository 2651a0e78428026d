export type SimulatorClock = ReturnType<typeof makeClock>;

/** A clock over milliseconds since 1970 (fractions count): `now` as the database writes it, always later than the time before. */
export function makeClock(milliseconds: () => number) {
  let last = 0;
  return {
    milliseconds,
    now: (): string => {
      last = Math.max(Math.floor(milliseconds() * 1000), last + 1);
      const micros = String(last % 1_000_000).padStart(6, '0');
      return `${new Date(Math.floor(last / 1000)).toISOString().slice(0, 19)}.${micros}Z`;
    },
  };
}
