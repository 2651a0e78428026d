import type { Result } from '../../model/result.ts';
import { fail, ok } from '../../model/result.ts';

export interface CronSchedule {
  readonly minutes: readonly number[];
  readonly hours: readonly number[];
  readonly days: readonly number[];
  readonly months: readonly number[];
  readonly weekdays: readonly number[];
  /** Days of the month and of the week are both restricted: a day that is either counts, as in cron. */
  readonly eitherDay: boolean;
  readonly timeZone: string;
}

interface Field {
  readonly name: string;
  readonly min: number;
  readonly max: number;
  readonly words: readonly string[];
}

const monthNames = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const fields: readonly Field[] = [
  { name: 'minute', min: 0, max: 59, words: [] },
  { name: 'hour', min: 0, max: 23, words: [] },
  { name: 'day of the month', min: 1, max: 31, words: [] },
  { name: 'month', min: 1, max: 12, words: monthNames },
  { name: 'day of the week', min: 0, max: 7, words: ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'] },
];
const longestMonths = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
const dayMs = 86_400_000;

/** Reads the five fields of cron (`30 8 * * mon-fri`); the error says what is wrong. */
export function parseSchedule(text: string, timeZone: string): Result<CronSchedule, string> {
  if (!isTimeZone(timeZone)) return fail(`"${timeZone}" is not a time zone; write one such as UTC or Europe/Berlin`);
  const parts = text.trim().toLowerCase().split(/\s+/);
  if (parts.length !== 5)
    return fail(`"${text}" has ${parts.length} fields; cron has five: minute hour day month weekday`);
  const values: (readonly number[])[] = [];
  for (const [index, field] of fields.entries()) {
    const read = parseField(parts[index] ?? '', field);
    if (!read.ok) return read;
    values.push(read.value);
  }
  const [minutes = [], hours = [], days = [], months = [], week = []] = values;
  const weekdays = [...new Set(week.map((day) => day % 7))];
  const eitherDay = days.length < 31 && weekdays.length < 7;
  if (!eitherDay && !months.some((month) => days.some((day) => day <= (longestMonths[month - 1] ?? 0)))) {
    return fail(`"${text}" names a day that no month has`);
  }
  return ok({ minutes, hours, days, months, weekdays, eitherDay, timeZone });
}

/** `*`, `5`, `1-5`, `mon-fri`, each with an optional step, in a list with commas. */
function parseField(text: string, { name, min, max, words }: Field): Result<readonly number[], string> {
  const readValue = (word: string): number => {
    const at = words.indexOf(word);
    return at >= 0 ? at + min : /^\d{1,2}$/.test(word) ? Number(word) : Number.NaN;
  };
  const found = new Set<number>();
  for (const item of text.split(',')) {
    const [, range = '', step = '1'] = /^([^/]+)(?:\/(\d{1,2}))?$/.exec(item) ?? [];
    const [from = '', to = item.includes('/') ? String(max) : from] =
      range === '*' ? [String(min), String(max)] : range.split('-', 2);
    const [first, last, by] = [readValue(from), readValue(to), Number(step)];
    if (!(first >= min && last <= max && first <= last && by > 0)) {
      return fail(
        `the ${name} cannot be "${item}"; write ${min} to ${max}, a range such as ${min}-${max}, a list or a step such as */2`,
      );
    }
    for (let value = first; value <= last; value += by) found.add(value);
  }
  return ok([...found].toSorted((a, b) => a - b));
}

function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

/** When it starts within (`after`, `to`], ascending. A local time that comes twice counts once; a skipped one counts later. */
export function listStarts(schedule: CronSchedule, after: number, to: number): readonly number[] {
  const starts: number[] = [];
  const measure = offsetsOf(schedule.timeZone);
  // Local dates reach up to 14 hours beyond those of UTC.
  for (let date = Math.floor(after / dayMs) * dayMs - dayMs; date <= to + dayMs; date += dayMs) {
    if (!isOn(schedule, new Date(date))) continue;
    const [before, later] = [measure(date - dayMs), measure(date + 2 * dayMs)];
    for (const hour of schedule.hours) {
      for (const minute of schedule.minutes) {
        const local = date + (hour * 60 + minute) * 60_000;
        if (before === later) {
          starts.push(local - before);
          continue;
        }
        const earlier = Math.min(local - before, local - later);
        const both = [earlier, Math.max(local - before, local - later)];
        starts.push(both.find((at) => local - at === measure(at)) ?? local - before);
      }
    }
  }
  return starts.filter((start) => start > after && start <= to).toSorted((a, b) => a - b);
}

function isOn({ days, months, weekdays, eitherDay }: CronSchedule, date: Date): boolean {
  if (!months.includes(date.getUTCMonth() + 1)) return false;
  const isDay = days.includes(date.getUTCDate());
  const isWeekday = weekdays.includes(date.getUTCDay());
  return eitherDay ? isDay || isWeekday : isDay && isWeekday;
}

/** How far the zone's clocks are ahead of UTC at an instant, ms. */
function offsetsOf(timeZone: string): (at: number) => number {
  const format = new Intl.DateTimeFormat('en-US', {
    ...{ timeZone, hourCycle: 'h23', year: 'numeric', month: 'numeric', day: 'numeric' },
    ...{ hour: 'numeric', minute: 'numeric', second: 'numeric' },
  });
  return (at) => {
    const parts = new Map(format.formatToParts(at).map(({ type, value }) => [type, Number(value)]));
    const read = (name: Intl.DateTimeFormatPartTypes): number => parts.get(name) ?? 0;
    const local = Date.UTC(read('year'), read('month') - 1, read('day'), read('hour'), read('minute'), read('second'));
    return local - Math.floor(at / 1000) * 1000;
  };
}
