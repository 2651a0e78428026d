import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Rule } from '../../src/model/rule.ts';
import { computeEffect } from '../../src/policy/effect.ts';
import type { Traffic } from '../../src/policy/traffic.ts';
import { runs } from '../property/runs.ts';
import {
  accepts,
  expandTraffic,
  networkNamed,
  packetKey,
  packets,
  ruleArbitrary,
  rulesArbitrary,
  users,
} from './universe.ts';

const sources = [null, ...users];

/** Before and after share most rules, as plans do. */
const pair = fc
  .record({
    kept: rulesArbitrary,
    removed: fc.array(ruleArbitrary, { maxLength: 3 }),
    created: fc.array(ruleArbitrary, { maxLength: 3 }),
  })
  .map(({ kept, removed, created }) => ({ before: [...kept, ...removed], after: [...created, ...kept] }));

/** Rules that only users have, and that are often equal but for their user. */
const alike: fc.Arbitrary<Rule> = fc
  .record({
    like: fc.constantFrom('192.0.2.0/31', '192.0.2.4/31'),
    drops: fc.boolean(),
    user: fc.constantFrom(...users),
  })
  .map(({ like, drops, user }) => rule(drops ? 'drop' : 'accept', like, user));

/** In some, users' rules stay, and differ little or not at all, while global rules change around them. */
const anyPair = fc.oneof(
  { weight: 3, arbitrary: pair },
  {
    weight: 1,
    arbitrary: fc.tuple(fc.array(alike, { maxLength: 6 }), pair).map(([kept, { before, after }]) => ({
      before: [...kept, ...before.filter(({ userId }) => userId === null)],
      after: [...kept, ...after.filter(({ userId }) => userId === null)],
    })),
  },
);

describe('computeEffect', () => {
  it('names exactly the packets whose verdict changes, of two states before from either', () => {
    fc.assert(
      fc.property(anyPair, fc.option(rulesArbitrary), ({ before, after }, due) => {
        const effect = computeEffect(before, after, [], Number.POSITIVE_INFINITY, due);
        const named = new Set([...before, ...after, ...(due ?? [])].map(({ userId }) => userId));
        const opens: string[] = [];
        const closes: string[] = [];
        for (const packet of packets(sources.filter((user) => user === null || named.has(user)))) {
          const [was, is] = [accepts(before, packet), accepts(after, packet)];
          const either = due === null ? was : accepts(due, packet);
          if (!(was && either) && is) opens.push(packetKey(packet));
          if ((was || either) && !is) closes.push(packetKey(packet));
        }
        expect(expandTraffic(effect.opens)).toEqual(opens.sort());
        expect(expandTraffic(effect.closes)).toEqual(closes.sort());
      }),
      { numRuns: runs(5000) },
    );
  });

  it('renders canonically: the order of the inputs does not matter, destinations and ports are minimal and sorted', () => {
    fc.assert(
      fc.property(pair, fc.infiniteStream(fc.nat()), ({ before, after }, keys) => {
        const effect = computeEffect(before, after);
        const shuffle = (rules: readonly Rule[]): readonly Rule[] =>
          rules
            .map((rule) => ({ rule, key: keys.next().value ?? 0 }))
            .sort((a, b) => a.key - b.key)
            .map(({ rule }) => rule);
        expect(computeEffect(shuffle(before), shuffle(after))).toEqual(effect);
        for (const traffic of [effect.opens, effect.closes]) expectCanonical(traffic);
      }),
      { numRuns: runs(5000) },
    );
  });

  it('is empty when a refactoring keeps the meaning', () => {
    const half = (text: string): Rule => rule('drop', text);
    expect(computeEffect([rule('drop', '10.0.0.0/8')], [half('10.0.0.0/9'), half('10.128.0.0/9')])).toEqual({
      opens: [],
      closes: [],
    });
  });

  it('counts a user who is named only before, and one who is named only after', () => {
    const [alice, bob] = users;
    const effect = computeEffect([rule('drop', '10.0.0.1', alice)], [rule('drop', '10.0.0.1', bob)]);
    expect(effect.opens.map(({ user }) => user)).toEqual([alice, alice, alice]);
    expect(effect.closes.map(({ user }) => user)).toEqual([bob, bob, bob]);
  });

  describe('of a drop with ports of their own open, for users with a rule each', () => {
    const ports = Array.from({ length: 20 }, (_, n) => n + 1);
    const open = ports.map((port): Rule => {
      return { ...rule('accept', `10.0.0.${port}`), ports: { type: 'tcp', low: port, high: port } };
    });
    const own = users.map((user, n) => rule('accept', `10.1.0.${n}`, user));
    const rules = [rule('drop', '10.0.0.0/8'), ...open, ...own];

    it('shares the networks of what users have as nobody has it: 1,000 users and ports would fill the memory', () => {
      const { closes } = computeEffect([], rules);
      const lists = closes.filter(({ protocol, destinations: { length } }) => protocol === 'tcp' && length === 1);
      expect(lists.length).toBe(ports.length * sources.length);
      expect(new Set(lists.map(({ destinations }) => destinations)).size).toBe(ports.length);
    });

    it('tells the first source alone where there is more than asked for', () => {
      const { closes } = computeEffect([], rules);
      const cut = computeEffect([], rules, [], closes.length - 1);
      expect(cut).toEqual({ opens: [], closes: closes.filter(({ user }) => user === null), isCut: true });
      expect(computeEffect([], rules, [], 10 * closes.length)).toEqual({ opens: [], closes });
      // Where nothing changes for nobody, the first who has any is a user.
      const given = users.map((user) => rule('accept', '10.0.0.0/8', user));
      const { opens } = computeEffect([rule('drop', '10.0.0.0/8')], [rule('drop', '10.0.0.0/8'), ...given], [], 2);
      expect(new Set(opens.map(({ user }) => user)).size).toBe(1);
    });
  });
});

function rule(action: 'accept' | 'drop', destination: string, userId: string | null = null): Rule {
  return { action, destination: networkNamed(destination), ports: null, userId };
}

function expectCanonical(traffic: readonly Traffic[]): void {
  const groups = traffic.map(({ user, protocol, ports }) => JSON.stringify([user, protocol, ports]));
  expect(new Set(groups).size).toBe(groups.length);
  for (const { destinations, ports, protocol } of traffic) {
    expect(ports === null).toBe(protocol === 'other');
    for (const [i, range] of (ports ?? []).entries()) {
      expect(range.low).toBeLessThanOrEqual(range.high);
      if (i > 0) expect(range.low).toBeGreaterThan((ports?.[i - 1]?.high ?? 0) + 1);
    }
    const networks = destinations.map(networkNamed);
    for (const [i, next] of networks.entries()) {
      const previous = networks[i - 1];
      if (previous === undefined || previous.family !== next.family) continue;
      expect(previous.last < next.first).toBe(true);
      const siblings =
        previous.prefix === next.prefix && (previous.first ^ next.first) === previous.last - previous.first + 1n;
      expect(siblings).toBe(false);
    }
  }
}
