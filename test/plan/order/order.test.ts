import { describe, expect, it } from 'vitest';
import { findProfile } from '../../../src/model/profile.ts';
import { formatRuleKey } from '../../../src/model/rule.ts';
import { makePlan } from '../../../src/plan/make-plan.ts';
import type { Plan } from '../../../src/plan/plan.ts';
import { desiredRules, type InputParts, liveRules, planInput } from '../support.ts';

const patching = { profile: findProfile('firezone-0.7', 'patch') };

/** The steps as one line each, with what they wait for: `s2 + drop 10.0.0.0/8 * <s1 [g1]`. */
function shown(plan: Plan): readonly string[] {
  return plan.steps.map((step) => {
    const sign = { create: '+', delete: '-', update: '~', configure: 'c' }[step.type];
    const what = step.type === 'configure' ? '' : formatRuleKey(step.type === 'delete' ? step.live.rule : step.rule);
    const after = step.after.length === 0 ? '' : ` <${step.after.join(' ')}`;
    return `${step.id} ${sign} ${what}${after}${step.gap === null ? '' : ` [${step.gap}]`}`;
  });
}

function plan(parts: InputParts, more = {}): Plan {
  return makePlan(planInput(parts, more));
}

describe('a gap', () => {
  it('is the deletes that a create needs, then that create, in one piece', () => {
    const made = plan({
      desired: desiredRules('drop 10.0.0.0/8', 'drop 172.16.0.0/12'),
      live: liveRules('drop 10.1.0.0/16', 'drop 10.2.0.0/16', 'drop 172.16.0.0/16'),
    });
    expect(shown(made)).toEqual([
      's1 - drop 10.1.0.0/16 * [g1]',
      's2 - drop 10.2.0.0/16 * [g1]',
      's3 + drop 10.0.0.0/8 * <s1 s2 [g1]',
      's4 - drop 172.16.0.0/16 * [g2]',
      's5 + drop 172.16.0.0/12 * <s4 [g2]',
    ]);
    expect(made.exposure).toEqual([
      {
        direction: 'opened',
        traffic: ['tcp', 'udp', 'other'].map((protocol) => ({
          user: null,
          destinations: ['10.1.0.0/16'],
          protocol,
          ports: protocol === 'other' ? null : [{ low: 0, high: 65535 }],
        })),
        fromStep: 's1',
        toStep: 's3',
        expectedMs: 39,
      },
      expect.objectContaining({ direction: 'opened', fromStep: 's2', toStep: 's3', expectedMs: 26 }),
      expect.objectContaining({ direction: 'opened', fromStep: 's4', toStep: 's5', expectedMs: 26 }),
    ]);
  });

  it('exposes nothing where a created rule of another class covers it first', () => {
    const made = plan({
      desired: desiredRules('drop 10.0.0.0/8', 'drop 10.1.0.0/16 tcp/1-65534'),
      live: liveRules('drop 10.1.0.0/16'),
    });
    expect(shown(made)[0]).toBe('s1 + drop 10.1.0.0/16 tcp 1-65534 *');
    expect(made.exposure.flatMap(({ traffic }) => traffic.map(({ protocol, ports }) => [protocol, ports]))).toEqual([
      [
        'tcp',
        [
          { low: 0, high: 0 },
          { low: 65535, high: 65535 },
        ],
      ],
      ['udp', [{ low: 0, high: 65535 }]],
      ['other', null],
    ]);
  });

  it('opens after a delete that rank order would leave for last: the worked example of docs/explanation/planning.md', () => {
    const made = plan({
      desired: desiredRules('drop 10.0.0.0/16 tcp/22', 'drop 10.0.0.0/8'),
      live: liveRules('drop 10.0.0.0/24 tcp/22', 'accept 10.0.0.0/24', 'drop 10.0.0.0/8'),
    });
    expect(shown(made)).toEqual([
      's1 - accept 10.0.0.0/24 *',
      's2 - drop 10.0.0.0/24 tcp 22-22 * <s1 [g1]',
      's3 + drop 10.0.0.0/16 tcp 22-22 * <s2 [g1]',
    ]);
    expect(made.exposure).toEqual([]);
  });

  it('waits for a cover that rank order alone would create later', () => {
    const made = plan({
      desired: desiredRules('accept 10.0.0.0/8 tcp/80', 'drop 10.0.0.0/16 @alice', 'drop 10.0.0.0/8'),
      live: liveRules('drop 10.0.0.0/24 @alice', 'accept 10.0.0.0/16 tcp/80'),
    });
    expect(made.exposure.filter(({ direction }) => direction === 'opened')).toEqual([]);
  });
});

describe('updates in place', () => {
  const desired = desiredRules('a=drop 10.0.0.1', 'b=drop 10.0.0.2', 'c=drop 10.0.0.3');
  const base = desiredRules('a=drop 10.0.0.2', 'b=drop 10.0.0.3', 'c=drop 10.0.0.4');

  it('follow each other where one takes what another frees', () => {
    const made = plan(
      {
        desired: desiredRules('a=drop 10.0.0.2/31', 'b=drop 10.0.0.9'),
        live: liveRules('drop 10.0.0.1', 'drop 10.0.0.3'),
        base: desiredRules('a=drop 10.0.0.1', 'b=drop 10.0.0.3'),
      },
      patching,
    );
    expect(shown(made)).toEqual(['s1 ~ drop 10.0.0.9 *', 's2 ~ drop 10.0.0.2/31 * <s1']);
    expect(made.exposure.length).toBeGreaterThan(0);
  });

  it('replace the fewest that break a circle', () => {
    // Three rules that move round: a takes b's place, b takes c's, c takes a's. Ports make each place unequal to the next.
    const live = liveRules('drop 10.0.0.0/24 tcp/10-20', 'drop 10.0.1.0/24 tcp/10-20', 'drop 10.0.2.0/24 tcp/10-20');
    const round = ['drop 10.0.1.0/24 tcp/10-19', 'drop 10.0.2.0/24 tcp/10-19', 'drop 10.0.0.0/24 tcp/10-19'];
    const names = ['a', 'b', 'c'];
    const made = plan(
      {
        desired: desiredRules(...round.map((text, n) => `${names[n]}=${text}`)),
        live,
        base: live.map(({ rule }, n) => ({ name: names[n] ?? '', rule, place: { file: 'f', line: 1, column: 1 } })),
      },
      patching,
    );
    expect(made.changes.filter(({ via }) => via === 'replace')).toHaveLength(1);
    expect(made.changes.filter(({ via }) => via === 'patch')).toHaveLength(2);
    expect(made.steps).toHaveLength(4);
  });

  it('are not needed where rules only changed their names', () => {
    const made = plan({ desired, live: liveRules('drop 10.0.0.2', 'drop 10.0.0.3', 'drop 10.0.0.4'), base }, patching);
    expect(shown(made)).toEqual(['s1 + drop 10.0.0.1 *', 's2 - drop 10.0.0.4 *']);
  });
});

describe('rules that were modified in place', () => {
  it('are deleted one at a time, after everything that does not wait for them', () => {
    const made = plan({
      desired: desiredRules('drop 10.0.0.0/8', 'accept 192.168.0.0/16', 'drop 172.16.0.0/12'),
      live: liveRules('*drop 10.1.0.0/16', '*accept 8.8.8.8', 'drop 9.9.9.9', 'drop 172.16.0.0/12'),
    });
    expect(shown(made)).toEqual([
      's1 + accept 192.168.0.0/16 *',
      's2 - drop 9.9.9.9 *',
      's3 - drop 10.1.0.0/16 * <s1 s2 [g1]',
      's4 + drop 10.0.0.0/8 * <s3 [g1]',
      's5 - accept 8.8.8.8 * <s4',
    ]);
    expect(made.exposure.map(({ fromStep, toStep }) => [fromStep, toStep])).toEqual([
      ['s3', 's3'],
      ['s3', 's4'],
    ]);
    const [unfiltered] = made.exposure;
    expect(unfiltered).toMatchObject({ direction: 'opened', expectedMs: 3000 });
    expect(unfiltered?.traffic.map(({ destinations: to }) => to)).toContainEqual(['10.1.0.0/16', '172.16.0.0/12']);
    expect(
      plan({ live: liveRules('*drop 10.0.0.0/8', 'drop 11.0.0.0/8'), options: { maxExposure: 'none' } }).refusals,
    ).toEqual([]);
  });

  it('make --max-exposure none refuse what passes while the filter is rebuilt', () => {
    const parts = { desired: desiredRules('drop 11.0.0.0/8'), live: liveRules('*drop 10.0.0.0/8', 'drop 11.0.0.0/8') };
    expect(plan({ ...parts, options: { maxExposure: 'none' } }).refusals.map(({ code }) => code)).toEqual([
      'opens-on-the-way',
    ]);
  });

  it('count for more time where more rules must be rebuilt', () => {
    const others = Array.from({ length: 499 }, (_, n) => `drop 10.${n >> 8}.${n & 255}.0/24`);
    const parts = { desired: desiredRules(...others), live: liveRules('*accept 8.8.8.8', ...others) };
    expect(plan(parts).exposure[0]?.expectedMs).toBe(5000);
  });

  it('count for the backlog too where a gap waits for the rebuild: 10 ms for each step before, at most a second', () => {
    const gapAfter = (count: number): number | undefined => {
      const others = Array.from({ length: count }, (_, n) => `accept 11.${n >> 8}.${n & 255}.0/24`);
      const made = plan({ desired: desiredRules('drop 10.0.0.0/8', ...others), live: liveRules('*drop 10.1.0.0/16') });
      return made.exposure.find(({ fromStep, toStep }) => fromStep !== toStep)?.expectedMs;
    };
    expect([gapAfter(0), gapAfter(30), gapAfter(300)]).toEqual([3026, 3326, 4026]);
  });
});

describe('what a step waits for', () => {
  it('is nothing among thousands of steps that go one way', () => {
    const texts = Array.from({ length: 3000 }, (_, n) => `accept 10.${n >> 8}.${n & 255}.0/24`);
    const made = plan({
      desired: desiredRules(...texts, 'accept 10.0.0.0/8 tcp/443'),
      live: liveRules('drop 10.0.0.0/8'),
    });
    expect(made.steps.flatMap(({ after }) => after)).toEqual([]);
  });

  it('stays few where many steps of one way meet many of the other', () => {
    const accepts = Array.from({ length: 100 }, (_, n) => `accept 10.0.0.0/8 tcp/${n * 10 + 1}-${n * 10 + 9}`);
    const drops = Array.from({ length: 100 }, (_, n) => `drop 10.${n}.0.0/16`);
    const made = plan({ desired: desiredRules(...accepts, ...drops) });
    expect(made.steps).toHaveLength(200);
    expect(made.steps.reduce((sum, { after }) => sum + after.length, 0)).toBeLessThan(20 * 200);
    for (const [index, step] of made.steps.entries()) {
      const ids = made.steps.slice(0, index).map(({ id }) => id);
      for (const id of step.after) expect(ids).toContain(id);
    }
  });
});

it('puts hundreds of changes on one network among hundreds inside it each just after what it needs, and lists what opens', () => {
  const ports = (shift: number): string[] =>
    Array.from({ length: 300 }, (_, n) => `drop 10.0.0.0/8 tcp/${10 * n + 10 + shift}-${10 * n + 19 + shift}`);
  const hosts = Array.from({ length: 900 }, (_, n) => `accept 10.0.${n >> 8}.${n & 255}`);
  const made = plan({ desired: desiredRules(...ports(5), ...hosts), live: liveRules(...ports(0), ...hosts) });
  expect(made.steps).toHaveLength(600);
  const place = new Map(made.steps.map(({ id }, index) => [id, index]));
  for (const [index, { after }] of made.steps.entries()) {
    for (const id of after) expect(place.get(id)).toBeLessThan(index);
  }
  expect(
    shown(made)
      .slice(0, 3)
      .map((line) => line.split(' <')[0]?.replace(/ \[.*/, '')),
  ).toEqual([
    's1 - drop 10.0.0.0/8 tcp 10-19 *',
    's2 - drop 10.0.0.0/8 tcp 20-29 *',
    's3 + drop 10.0.0.0/8 tcp 15-24 *',
  ]);
  expect(made.exposure).toHaveLength(599);
  expect(made.exposure[0]).toMatchObject({ direction: 'opened', fromStep: 's1', toStep: 's3' });
});
