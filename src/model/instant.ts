import { attempt, fail, ok, type Result } from './result.ts';

const pattern = /^(\d{4}-\d\d-\d\d)(?:[Tt ]((\d\d):\d\d(?::\d\d)?)(?:\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)?)?$/;

const notATime = 'Write a date, `2026-12-01`, or a time with its zone, `2026-12-01T18:00:00+01:00`.';
const noSuchDay = 'There is no such day or time of day.';
const noZone = 'A time of day needs its zone: `2026-12-01T18:00:00+01:00`, or `Z` for UTC.';

/**
 * The ms since 1970 of a date (`2026-12-01`) or an RFC 3339 time with its zone (`2026-12-01T18:00:00+01:00`); else a hint. A date is
 * meant from its first moment, or until its last, in an IANA time zone, such as `Europe/Berlin`.
 */
export function parseInstant(text: string, edge: 'from' | 'until', timezone: string): Result<number, string> {
  const found = pattern.exec(text);
  if (found === null) return fail(notATime);
  const [, date = '', time, hour, zone] = found;
  const midnight = Date.parse(`${date}T00:00Z`);
  // From 1970 on; and a day that no month has is read as one of the next month.
  if (!(midnight >= 0 && new Date(midnight).toISOString().startsWith(date))) return fail(noSuchDay);
  if (time === undefined) return ok(limit(startOfDay(midnight + (edge === 'until' ? 86_400_000 : 0), timezone)));
  if (hour === '24' || Number.isNaN(Date.parse(`${date}T${time}Z`))) return fail(noSuchDay);
  if (zone === undefined) return fail(noZone);
  const instant = Date.parse(`${date}T${time}${zone.toUpperCase()}`);
  return Number.isNaN(instant) ? fail(notATime) : ok(limit(instant));
}

/** The nearest time that can be written in UTC, and read again: zones lie behind 1970 and beyond 9999. */
function limit(instant: number): number {
  return Math.min(Math.max(instant, 0), Date.UTC(9999, 11, 31, 23, 59, 59));
}

const unitMs = new Map(Object.entries({ ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 }));

/** How long a time with a unit is, ms: `500ms`, `90s`, `5m`, `8h`, `30d`, `4w`; NaN for any other text. */
export function countMs(text: string): number {
  const [, number, unit = ''] = /^(\d{1,9})([a-z]+)$/.exec(text) ?? [];
  return Number(number) * (unitMs.get(unit) ?? Number.NaN);
}

/** Whether this is the name of a time zone. */
export function isTimezone(name: string): boolean {
  return attempt(() => new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone !== '', false);
}

/** `2026-12-01T00:00:00Z`, without milliseconds that are none. */
export function formatInstant(ms: number): string {
  return new Date(ms).toISOString().replace('.000Z', 'Z');
}

/** The first instant of a day (its midnight as if in UTC) in the zone; where clocks skip midnight, the moment after the gap. */
function startOfDay(midnight: number, timezone: string): number {
  // By the offset of the day before or of the day after.
  const candidates = [-86_400_000, 86_400_000].map((away) => midnight - offsetAt(midnight + away, timezone));
  return Math.min(...candidates.filter((instant) => instant + offsetAt(instant, timezone) >= midnight));
}

/** The zone last asked about: to make its clock takes 0.1 ms, and the dates of thousands of rules name the same. */
let last: { readonly timezone: string; readonly clock: Intl.DateTimeFormat } | null = null;

/** How far the zone's clocks are ahead of UTC at an instant, ms. */
function offsetAt(instant: number, timezone: string): number {
  if (last?.timezone !== timezone) {
    const day = { year: 'numeric', month: 'numeric', day: 'numeric' } as const;
    const time = { hour: 'numeric', minute: 'numeric', second: 'numeric', hourCycle: 'h23' } as const;
    last = { timezone, clock: new Intl.DateTimeFormat('en-US', { timeZone: timezone, ...day, ...time }) };
  }
  return Date.parse(`${last.clock.format(instant)} UTC`) - Math.floor(instant / 1000) * 1000;
}
