import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatInstant, isTimezone, parseInstant } from '../../src/model/instant.ts';
import { runs } from '../property/runs.ts';

function read(text: string, edge: 'from' | 'until' = 'from', timezone = 'UTC'): string {
  const parsed = parseInstant(text, edge, timezone);
  return parsed.ok ? formatInstant(parsed.value) : parsed.error;
}

describe('a time as people write it', () => {
  it.each([
    ['2026-12-01', 'from', 'UTC', '2026-12-01T00:00:00Z'],
    ['2026-12-01', 'until', 'UTC', '2026-12-02T00:00:00Z'],
    ['2026-12-31', 'until', 'UTC', '2027-01-01T00:00:00Z'],
    ['2028-02-29', 'until', 'UTC', '2028-03-01T00:00:00Z'],
    ['2026-12-01', 'from', 'Europe/Berlin', '2026-11-30T23:00:00Z'],
    ['2026-07-01', 'until', 'Europe/Berlin', '2026-07-01T22:00:00Z'],
    ['2026-07-01', 'from', 'America/New_York', '2026-07-01T04:00:00Z'],
    // The day on which clocks change, either way, and a zone in which they skip midnight.
    ['2026-03-29', 'from', 'Europe/Berlin', '2026-03-28T23:00:00Z'],
    ['2026-03-29', 'until', 'Europe/Berlin', '2026-03-29T22:00:00Z'],
    ['2026-10-25', 'until', 'Europe/Berlin', '2026-10-25T23:00:00Z'],
    ['2024-04-26', 'from', 'Africa/Cairo', '2024-04-25T22:00:00Z'],
    // The first and the last time that can be written in UTC, and read again.
    ['1970-01-01', 'from', 'Europe/Berlin', '1970-01-01T00:00:00Z'],
    ['9999-12-31', 'until', 'UTC', '9999-12-31T23:59:59Z'],
    ['9999-12-31T23:30:00-01:00', 'until', 'UTC', '9999-12-31T23:59:59Z'],
    ['2026-12-01T18:00:00+01:00', 'until', 'UTC', '2026-12-01T17:00:00Z'],
    ['2026-12-01T18:00Z', 'from', 'Europe/Berlin', '2026-12-01T18:00:00Z'],
    [
      '2026-12-01T18:00:00',
      'from',
      'Europe/Berlin',
      'A time of day needs its zone: `2026-12-01T18:00:00+01:00`, or `Z` for UTC.',
    ],
    ['2026-02-30', 'from', 'UTC', 'There is no such day or time of day.'],
    ['2026-12-01T24:00:00Z', 'from', 'UTC', 'There is no such day or time of day.'],
    ['1.12.2026', 'from', 'UTC', 'Write a date, `2026-12-01`, or a time with its zone, `2026-12-01T18:00:00+01:00`.'],
    ['tomorrow', 'from', 'UTC', 'Write a date, `2026-12-01`, or a time with its zone, `2026-12-01T18:00:00+01:00`.'],
    [
      '2026-12-01T18:00:00+99:00',
      'from',
      'UTC',
      'Write a date, `2026-12-01`, or a time with its zone, `2026-12-01T18:00:00+01:00`.',
    ],
  ] as const)('%s, %s, in %s is %s', (text, edge, zone, expected) => {
    expect(read(text, edge, zone)).toBe(expected);
  });

  it('is a day without a gap: where one day ends the next begins, in every zone', () => {
    const zones = [
      'UTC',
      'Europe/Berlin',
      'America/New_York',
      'Africa/Cairo',
      'Australia/Lord_Howe',
      'Pacific/Apia',
      'Asia/Kathmandu',
    ];
    fc.assert(
      fc.property(fc.constantFrom(...zones), fc.integer({ min: 0, max: 25_000 }), (timezone, day) => {
        const text = (n: number): string => new Date(n * 86_400_000).toISOString().slice(0, 10);
        expect(read(text(day), 'until', timezone)).toBe(read(text(day + 1), 'from', timezone));
        expect(Date.parse(read(text(day + 1), 'from', timezone))).toBeGreaterThanOrEqual(
          Date.parse(read(text(day), 'from', timezone)),
        );
      }),
      { numRuns: runs(500) },
    );
  });

  it('begins at the first moment at which the calendars of the zone show it, or a later day, in every zone', () => {
    const zones = Intl.supportedValuesOf('timeZone');
    fc.assert(
      fc.property(fc.constantFrom(...zones), fc.integer({ min: 1, max: 25_000 }), (timeZone, day) => {
        const asked = new Date(day * 86_400_000).toISOString().slice(0, 10);
        const begins = Date.parse(read(asked, 'from', timeZone));
        const shown = (time: number): string => new Intl.DateTimeFormat('sv', { timeZone }).format(time);
        expect([shown(begins) >= asked, shown(begins - 1) < asked]).toEqual([true, true]);
      }),
      { numRuns: runs(500) },
    );
  });

  it('asks for the clock of a zone once, however many dates name it', () => {
    const { DateTimeFormat } = Intl;
    const made: unknown[] = [];
    const construct = (target: typeof DateTimeFormat, given: unknown[]): object => {
      made.push(given);
      return Reflect.construct(target, given);
    };
    Intl.DateTimeFormat = new Proxy(DateTimeFormat, { construct });
    try {
      for (let day = 10; day < 30; day++) read(`2026-03-${day}`, 'until', 'Europe/Lisbon');
      expect(made).toHaveLength(1);
      expect(read('2026-03-29', 'until', 'Europe/Berlin')).toBe('2026-03-29T22:00:00Z');
      expect(read('2026-03-29', 'until', 'UTC')).toBe('2026-03-30T00:00:00Z');
    } finally {
      Intl.DateTimeFormat = DateTimeFormat;
    }
  });

  it('knows time zones', () => {
    expect([isTimezone('Europe/Berlin'), isTimezone('UTC'), isTimezone('Europe/Nowhere'), isTimezone('')]).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });
});
