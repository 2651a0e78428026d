import { fail, ok, type Result } from './result.ts';

/** Why a text is no time. */
export type TimeFault = 'no-zone' | 'not-a-time' | 'no-such-day';

/** How a date without a time of day is meant: from its first moment, or to its last. */
export interface DateMeaning {
  readonly edge: 'from' | 'until';
  /** An IANA time zone, such as `Europe/Berlin`. */
  readonly timezone: string;
}

const datePattern = /^(\d{4})-(\d\d)-(\d\d)$/;
const timePattern = /^(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.\d{1,9})?)?([Zz]|[+-]\d\d:\d\d)?$/;

/** The instant, in ms since 1970, of a date (`2026-12-01`) or an RFC 3339 time with its zone (`2026-12-01T18:00:00+01:00`). */
export function parseInstant(text: string, { edge, timezone }: DateMeaning): Result<number, TimeFault> {
  const date = datePattern.exec(text);
  if (date !== null) {
    const [year, month, day] = date.slice(1).map(Number) as [number, number, number];
    if (!isDay(year, month, day)) return fail('no-such-day');
    return ok(startOfDay(Date.UTC(year, month - 1, day + (edge === 'until' ? 1 : 0)), timezone));
  }
  const time = timePattern.exec(text);
  if (time === null) return fail('not-a-time');
  const [year, month, day, hour, minute, second = 0] = time
    .slice(1, 7)
    .map((part) => (part === undefined ? undefined : Number(part))) as [
    number,
    number,
    number,
    number,
    number,
    number?,
  ];
  if (!isDay(year, month, day) || hour > 23 || minute > 59 || second > 59) return fail('no-such-day');
  const zone = time[7];
  if (zone === undefined) return fail('no-zone');
  const [hours, minutes] = /\d/.test(zone) ? [Number(zone.slice(1, 3)), Number(zone.slice(4))] : [0, 0];
  if (hours > 23 || minutes > 59) return fail('not-a-time');
  const offset = (hours * 60 + minutes) * 60_000 * (zone.startsWith('-') ? -1 : 1);
  return ok(Date.UTC(year, month - 1, day, hour, minute, second) - offset);
}

/** Whether this is the name of a time zone. */
export function isTimezone(name: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone !== '';
  } catch {
    return false;
  }
}

/** `2026-12-01T00:00:00Z`, without milliseconds that are none. */
export function formatInstant(ms: number): string {
  return new Date(ms).toISOString().replace('.000Z', 'Z');
}

function isDay(year: number, month: number, day: number): boolean {
  const date = new Date(Date.UTC(year, month - 1, day));
  return year >= 1970 && date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
}

/** The first instant of a day (its midnight as if in UTC) in the zone; where clocks skip midnight, the moment after the gap. */
function startOfDay(midnight: number, timezone: string): number {
  const candidates = [
    midnight - offsetAt(midnight - 86_400_000, timezone),
    midnight - offsetAt(midnight + 86_400_000, timezone),
  ];
  const exact = candidates.filter((instant) => instant + offsetAt(instant, timezone) === midnight);
  return exact.length > 0 ? Math.min(...exact) : Math.max(...candidates);
}

/** How far the zone's clocks are ahead of UTC at an instant, ms. */
function offsetAt(instant: number, timezone: string): number {
  const parts = new Intl.DateTimeFormat('en', {
    timeZone: timezone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  }).formatToParts(instant);
  const of = (type: string): number => Number(parts.find((part) => part.type === type)?.value ?? 0);
  const local = Date.UTC(of('year'), of('month') - 1, of('day'), of('hour'), of('minute'), of('second'));
  return local - Math.floor(instant / 1000) * 1000;
}
