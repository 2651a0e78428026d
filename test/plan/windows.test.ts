import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Window } from '../../src/plan/guard/windows.ts';
import { findClosedWindow, listNextWindows, parseSchedule } from '../../src/plan/guard/windows.ts';
import type { Plan } from '../../src/plan/plan.ts';
import { runs } from '../property/runs.ts';
import { desiredRules, liveRules } from './support.ts';

const hourMs = 3_600_000;
const at = (text: string): number => Date.parse(text);

function schedule(text: string, timeZone = 'UTC') {
  const parsed = parseSchedule(text, timeZone);
  if (!parsed.ok) throw new Error(parsed.error);
  return parsed.value;
}

/** When it starts from `from` on, until `to`. */
function starts(text: string, zone: string, from: string, to: string): readonly string[] {
  const found: string[] = [];
  for (let time: Date | null = new Date(at(from) - 1); ; ) {
    time = schedule(text, zone).nextRun(time);
    if (time === null || time.getTime() > at(to)) return found;
    found.push(time.toISOString().slice(0, 16));
  }
}

describe('a schedule', () => {
  it.each([
    ['every day', '30 8 * * *', 'UTC', '2026-01-01', '2026-01-02T12:00Z', ['2026-01-01T08:30', '2026-01-02T08:30']],
    ['weekdays', '0 9 * * mon-fri', 'UTC', '2026-11-20', '2026-11-23T12:00Z', ['2026-11-20T09:00', '2026-11-23T09:00']],
    [
      'Sunday as 0 and 7',
      '0 0 * * 0,7',
      'UTC',
      '2026-11-20',
      '2026-11-29T12:00Z',
      ['2026-11-22T00:00', '2026-11-29T00:00'],
    ],
    [
      'steps',
      '*/30 12-13/1 1 1 *',
      'UTC',
      '2026-01-01',
      '2026-12-31',
      ['2026-01-01T12:00', '2026-01-01T12:30', '2026-01-01T13:00', '2026-01-01T13:30'],
    ],
    [
      'either day, as cron has it',
      '0 0 13 * fri',
      'UTC',
      '2026-11-11',
      '2026-11-20T01:00Z',
      ['2026-11-13T00:00', '2026-11-20T00:00'],
    ],
    ['a leap day', '0 0 29 2 *', 'UTC', '2026-01-01', '2033-01-01', ['2028-02-29T00:00', '2032-02-29T00:00']],
    ['a zone ahead of UTC', '0 1 * * *', 'Pacific/Kiritimati', '2026-06-01', '2026-06-02', ['2026-06-01T11:00']],
    [
      'a zone behind UTC',
      '0 20 * * *',
      'America/New_York',
      '2026-06-01',
      '2026-06-02T06:00Z',
      ['2026-06-01T00:00', '2026-06-02T00:00'],
    ],
    // Clocks in Berlin: 2026-03-29 02:00 becomes 03:00; 2026-10-25 03:00 becomes 02:00.
    ['the day before the gap', '30 2 28 3 *', 'Europe/Berlin', '2026-03-01', '2026-04-01', ['2026-03-28T01:30']],
    ['a time that is skipped', '30 2 29 3 *', 'Europe/Berlin', '2026-03-01', '2026-04-01', ['2026-03-29T01:00']],
    ['just after the gap', '0 3 29 3 *', 'Europe/Berlin', '2026-03-01', '2026-04-01', ['2026-03-29T01:00']],
    ['a time that comes twice', '30 2 25 10 *', 'Europe/Berlin', '2026-10-01', '2026-11-01', ['2026-10-25T00:30']],
    [
      'each hour of the overlap',
      '0 * 25 10 *',
      'Europe/Berlin',
      '2026-10-24T23:00Z',
      '2026-10-25T02:00Z',
      ['2026-10-24T23:00', '2026-10-25T00:00', '2026-10-25T01:00', '2026-10-25T02:00'],
    ],
    [
      'each hour beside the gap',
      '0 * 29 3 *',
      'Europe/Berlin',
      '2026-03-29T00:00Z',
      '2026-03-29T02:00Z',
      ['2026-03-29T00:00', '2026-03-29T01:00', '2026-03-29T02:00'],
    ],
    [
      'a midnight that is skipped',
      '0 0 * * *',
      'America/Sao_Paulo',
      '2018-11-03',
      '2018-11-06',
      ['2018-11-03T03:00', '2018-11-04T03:00', '2018-11-05T02:00'],
    ],
    [
      'a day that is skipped',
      '0 0 * * *',
      'Pacific/Apia',
      '2011-12-29',
      '2012-01-01',
      ['2011-12-29T10:00', '2011-12-30T10:00', '2011-12-31T10:00'],
    ],
    [
      'a gap of half an hour',
      '15 2 * * *',
      'Australia/Lord_Howe',
      '2026-10-03',
      '2026-10-05',
      ['2026-10-03T15:30', '2026-10-04T15:15'],
    ],
    ['after the overlap', '0 3 25 10 *', 'Europe/Berlin', '2026-10-01', '2026-11-01', ['2026-10-25T02:00']],
  ])('%s', (_name, text, zone, from, to, expected) => {
    expect(starts(text, zone, from, to)).toEqual(expected);
  });

  it.each([
    ['* * * *', 'UTC', 'has 4 fields'],
    ['* * * * * *', 'UTC', 'has 6 fields'],
    ['@daily', 'UTC', 'has 1 fields'],
    ['2026-12-01T00:00:00Z', 'UTC', 'has 1 fields'],
    ['60 * * * *', 'UTC', 'Invalid value for minute: 60'],
    ['* 24 * * *', 'UTC', 'Invalid value for hour: 24'],
    ['* * 0 * *', 'UTC', 'Invalid value for day'],
    ['* * * foo *', 'UTC', '(foo)'],
    ['0 0 * * friday', 'UTC', 'write names with three letters, such as FRI or JAN'],
    ['* * * * mon-', 'UTC', 'illegal upper range'],
    ['* * * * fri-mon', 'UTC', "From value is larger than to value: '5-1'"],
    ['*/0 * * * *', 'UTC', 'illegal stepping: 0'],
    ['', 'UTC', 'has 1 fields'],
    ['0 0 31 2 *', 'UTC', 'names a day that no month has'],
  ])('%s in %s is refused with what is wrong', (text, zone, words) => {
    const parsed = parseSchedule(text, zone);
    expect(parsed).toMatchObject({ ok: false, error: expect.stringContaining(words) });
  });

  it('agrees with the clocks of its zone: each start shows the local time asked for, or one that the gap moved', () => {
    const zones = ['UTC', 'Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Asia/Kolkata', 'Pacific/Apia'];
    fc.assert(
      fc.property(
        fc.constantFrom(...zones),
        fc.integer({ min: 0, max: 23 }),
        fc.integer({ min: 0, max: 59 }),
        fc.integer({ min: at('2024-01-01'), max: at('2027-01-01') }),
        (zone, hour, minute, from) => {
          const start = new Date(from).toISOString();
          const end = new Date(from + 10 * 24 * hourMs).toISOString();
          const found = starts(`${minute} ${hour} * * *`, zone, start, end).map((one) => at(`${one}Z`));
          expect(found.length).toBeGreaterThanOrEqual(9);
          expect(found.length).toBeLessThanOrEqual(11);
          const shown = new Intl.DateTimeFormat('en-GB', { timeZone: zone, hour: '2-digit', minute: '2-digit' });
          const wanted = `${String(hour).padStart(2, '0')}:${String(minute).padStart(2, '0')}`;
          const moved = found.filter((one) => shown.format(one) !== wanted);
          expect(moved.length).toBeLessThanOrEqual(1);
        },
      ),
      { numRuns: 100 },
    );
  });
});

const window = (
  kind: Window['kind'],
  text: string,
  hours: number,
  options: Partial<Window> & { zone?: string } = {},
): Window => ({
  kind,
  schedule: schedule(text, options.zone),
  durationMs: hours * hourMs,
  scope: options.scope ?? ['rules', 'configuration'],
});

function planOf(what: { opens?: boolean; closes?: boolean; configures?: boolean; exposes?: boolean }): Plan {
  const traffic = { user: null, destinations: ['10.0.0.1'], protocol: 'tcp', ports: null };
  return {
    effect: {
      opens: what.opens ? [traffic] : [],
      closes: what.closes ? [traffic, { ...traffic, protocol: 'udp' }] : [],
    },
    exposure: what.exposes ? [{ direction: 'opened', fromStep: 's1', toStep: 's2' }] : [],
    steps: what.configures ? [{ type: 'configure' }] : [],
  } as unknown as Plan;
}

const opensAt = (
  windows: readonly Window[],
  now: string,
  plan = planOf({ opens: true }),
): string | null | undefined => {
  const closed = findClosedWindow(windows, plan, at(now));
  if (closed === null) return undefined;
  return closed.opensAt === null ? null : new Date(closed.opensAt).toISOString().slice(0, 16);
};

describe('windows', () => {
  const office = window('allow', '0 8 * * mon-fri', 8);
  const friday = window('deny', '0 0 * * fri', 24);

  it.each([
    ['no window at all', [], '2026-11-22T12:00Z', undefined],
    ['inside an allowed one', [office], '2026-11-23T08:00Z', undefined],
    ['its last millisecond', [office], '2026-11-23T15:59:59.999Z', undefined],
    ['its end', [office], '2026-11-23T16:00Z', '2026-11-24T08:00'],
    ['over the weekend', [office], '2026-11-22T12:00Z', '2026-11-23T08:00'],
    ['nothing on Fridays', [friday], '2026-11-20T12:00Z', '2026-11-21T00:00'],
    ['any other day', [friday], '2026-11-19T12:00Z', undefined],
    ['a deny wins over an allow', [office, friday], '2026-11-20T09:00Z', '2026-11-23T08:00'],
    [
      'overlapping denies are one',
      [friday, window('deny', '0 12 * * fri', 24)],
      '2026-11-20T12:00Z',
      '2026-11-21T12:00',
    ],
    ['overlapping allows are one', [office, window('allow', '0 15 * * *', 4)], '2026-11-23T18:00Z', undefined],
    ['always denied', [window('deny', '* * * * *', 1)], '2026-11-20T12:00Z', null],
    ['a window of months away', [window('allow', '0 0 1 7 *', 24)], '2026-11-20T12:00Z', '2027-07-01T00:00'],
    ['a window of years away', [window('allow', '0 0 29 2 *', 24)], '2026-11-20T12:00Z', '2028-02-29T00:00'],
    ['a window longer than its period', [window('deny', '0 * * * *', 2)], '2026-11-20T12:00Z', null],
    [
      'two denies that take turns',
      [friday, window('deny', '0 0 * * sat', 24)],
      '2026-11-20T12:00Z',
      '2026-11-22T00:00',
    ],
    [
      'an allow that is denied half-way',
      [office, window('deny', '0 7 * * *', 3)],
      '2026-11-22T12:00Z',
      '2026-11-23T10:00',
    ],
    [
      'over the overlap of autumn: eight hours are eight hours',
      [window('deny', '0 22 24 10 *', 8, { zone: 'Europe/Berlin' })],
      '2026-10-25T00:30Z',
      '2026-10-25T04:00',
    ],
    [
      'the second of two hours of the same name',
      [window('deny', '30 2 25 10 *', 1, { zone: 'Europe/Berlin' })],
      '2026-10-25T01:30Z',
      undefined,
    ],
    [
      'over the gap of spring',
      [window('deny', '0 22 28 3 *', 8, { zone: 'Europe/Berlin' })],
      '2026-03-29T00:30Z',
      '2026-03-29T05:00',
    ],
  ])('%s', (_name, windows, now, expected) => {
    expect(opensAt(windows as readonly Window[], now)).toBe(expected);
  });

  it('wait no longer than they must, and not less: before the time that is named each is closed, and then it is open', () => {
    const zones = ['UTC', 'Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe'];
    const texts = ['0 8 * * mon-fri', '30 2 * * *', '0 0 * * fri', '*/20 6-9 * * *', '0 0 1 * *', '0 12 13 * fri'];
    const one = fc.record({
      kind: fc.constantFrom('allow' as const, 'deny' as const),
      text: fc.constantFrom(...texts),
      zone: fc.constantFrom(...zones),
      hours: fc.constantFrom(0.25, 1, 8, 26),
    });
    fc.assert(
      fc.property(
        fc.array(one, { minLength: 1, maxLength: 4 }),
        fc.integer({ min: at('2026-01-01'), max: at('2027-01-01') }),
        (made, now) => {
          const windows = made.map(({ kind, text, zone, hours }) => window(kind, text, hours, { zone }));
          // Another way to tell than the one that is tested: a start that is not as long ago as the window lasts.
          const isIn = ({ schedule: cron, durationMs }: Window, time: number): boolean =>
            (cron.nextRun(new Date(time - durationMs))?.getTime() ?? time + 1) <= time;
          const isOpen = (time: number): boolean => {
            const allows = windows.filter(({ kind }) => kind === 'allow');
            const isDenied = windows.some((each) => each.kind === 'deny' && isIn(each, time));
            return !isDenied && (allows.length === 0 || allows.some((each) => isIn(each, time)));
          };
          const closed = findClosedWindow(windows, planOf({ opens: true }), now);
          expect(closed === null).toBe(isOpen(now));
          const { opensAt: opening } = closed ?? { opensAt: now };
          if (opening === null) return;
          expect(isOpen(opening)).toBe(true);
          for (let n = 1; n <= 40; n++) {
            const time = now + Math.floor(((opening - now) * n) / 41);
            if (time < opening) expect([time, isOpen(time)]).toEqual([time, false]);
          }
          if (opening > now) expect(isOpen(opening - 1)).toBe(false);
        },
      ),
      { numRuns: runs(60) },
    );
  });

  it('that never meet are said to be closed, instead of ending the run', () => {
    const always = { scope: ['rules'], durationMs: hourMs } as const;
    const windows: readonly Window[] = [
      { ...always, kind: 'allow', schedule: schedule('0 1 29 2 *') },
      { ...always, kind: 'deny', schedule: schedule('0 0 29 2 *'), durationMs: 24 * hourMs },
    ];
    const plan = { effect: { opens: [{}], closes: [] }, exposure: [], steps: [] } as unknown as Plan;
    expect(findClosedWindow(windows, plan, at('2026-01-01'))).toMatchObject({ opensAt: null });
  });

  it('are listed with the next time of each, the one in force too, however far away; without those that have none', () => {
    const never = { ...friday, schedule: { nextRun: () => null } as unknown as Window['schedule'] };
    const far = ['0 8 15 * *', '0 0 1 7 *'].map((text) => window('allow', text, 24));
    const found = listNextWindows([friday, office, ...far, never], at('2026-11-20T12:00Z'));
    expect(found.map(({ kind, from, to }) => [kind, from, to])).toEqual([
      ['deny', at('2026-11-20'), at('2026-11-21')],
      ['allow', at('2026-11-20T08:00Z'), at('2026-11-20T16:00Z')],
      ['allow', at('2026-12-15T08:00Z'), at('2026-12-16T08:00Z')],
      ['allow', at('2027-07-01'), at('2027-07-02')],
    ]);
  });

  it('a plan that opens nothing and leaves the Configuration alone is never held; one that opens on the way is', () => {
    const now = '2026-11-20T12:00Z';
    expect(opensAt([friday], now, planOf({ closes: true }))).toBeUndefined();
    expect(opensAt([friday], now, planOf({ configures: true }))).toBe('2026-11-21T00:00');
    expect(opensAt([friday], now, planOf({ exposes: true }))).toBe('2026-11-21T00:00');
    expect(findClosedWindow([friday], planOf({ exposes: true, configures: true }), at(now))?.message).toContain(
      'this plan opens traffic on the way and changes the Configuration, and the next window opens at',
    );
    const both = findClosedWindow([friday], planOf({ opens: true, exposes: true }), at(now))?.message;
    expect(both).toContain('this plan opens traffic, and the next');
  });

  it('a window for the Configuration alone does not hold rules, and a plan over both waits for both', () => {
    const configuration = window('deny', '0 0 * * fri', 48, { scope: ['configuration'] });
    const now = '2026-11-20T12:00Z';
    expect(opensAt([configuration], now)).toBeUndefined();
    expect(opensAt([configuration], now, planOf({ configures: true }))).toBe('2026-11-22T00:00');
    expect(opensAt([friday, configuration], now, planOf({ opens: true, configures: true }))).toBe('2026-11-22T00:00');
  });

  it('says what waits, until when, and which revocations wait with it', () => {
    const [old, gone, shut] = liveRules('accept 10.1.0.0/16', 'accept 10.2.0.0/16 tcp/443 @alice', 'drop 10.9.0.0/16');
    const [wide, narrow, tight] = desiredRules('accept 10.5.0.0/16', 'accept 10.1.2.0/24', 'drop 10.7.0.0/16');
    const changes = [
      { action: 'create', desired: wide, live: null },
      { action: 'update', desired: narrow, live: old },
      { action: 'delete', desired: null, live: gone },
      { action: 'delete', desired: null, live: shut },
      { action: 'create', desired: tight, live: null },
      { action: 'skip', desired: null, live: gone },
    ].map((one) => ({ kind: 'Rule', name: one.desired?.name ?? null, ...one }));
    const plan = { ...planOf({ opens: true, closes: true }), changes } as unknown as Plan;
    expect(findClosedWindow([friday], plan, at('2026-11-20T12:00Z'))?.message).toBe(
      'outside the window: this plan opens traffic, and the next window opens at 2026-11-21T00:00:00Z; what closes is held with it: r2, accept 10.2.0.0/16 tcp 443 for user 00000000, r3',
    );
  });
});
