import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Network } from '../../src/model/address.ts';
import { formatRuleKey, type Rule } from '../../src/model/rule.ts';
import { decide } from '../../src/policy/decide-packet.ts';
import { explainPacket, explainRule, type RuleKind } from '../../src/policy/explain-packet.ts';
import { indexRules } from '../../src/policy/rule-index.ts';
import { matches, type Packet } from '../../src/policy/verdict.ts';
import { runs } from '../property/runs.ts';
import { accepts, expandTraffic, networkNamed, packetKey, packets, rulesArbitrary, users } from './universe.ts';

const distinct = rulesArbitrary.map((rules) => [...new Map(rules.map((rule) => [formatRuleKey(rule), rule])).values()]);

/** A rule of that kind for exactly this packet. */
function ruleFor({ action, scope, withPorts }: RuleKind, { user, address, protocol, port }: Packet): Rule {
  const ports = withPorts && protocol !== 'other' ? { type: protocol, low: port, high: port } : null;
  return { action, destination: address, ports, userId: scope === 'user' ? user : null };
}

const packetArbitrary = fc
  .record({
    user: fc.constantFrom(null, ...users),
    offset: fc.bigInt(0n, 8n),
    protocol: fc.constantFrom('tcp', 'udp', 'other'),
    port: fc.integer({ min: 0, max: 7 }),
  })
  .map(({ offset, ...packet }): Packet => ({ ...packet, address: new Network(4, 0xc0000200n + offset, 32) }));

const everyPort = { low: 0, high: 65_535 };

describe('explainPacket', () => {
  it('does not offer a rule for a port that no rule can name', () => {
    const index = indexRules([
      { rule: { action: 'drop' as const, destination: networkNamed('192.0.2.0/29'), ports: null, userId: null } },
    ]);
    const packet: Packet = { user: null, address: new Network(4, 0xc0000200n, 32), protocol: 'tcp', port: 65_535 };
    const withPorts = (high: number) =>
      explainPacket(index, packet, { low: 1, high }).additions.map((kind) => kind.withPorts);
    expect(withPorts(65_534)).toEqual([false]);
    expect(withPorts(65_535)).toEqual([false, true]);
  });

  it('names removals that turn the verdict and are the fewest, or none when no removal can', () => {
    fc.assert(
      fc.property(distinct, packetArbitrary, (rules, packet) => {
        const items = rules.map((rule) => ({ rule }));
        const { removals, verdict } = explainPacket(indexRules(items), packet, everyPort);
        const matching = items.filter(({ rule }) => matches(rule, packet));
        const turning = subsets(matching).filter((gone) => {
          const left = items.filter((item) => !gone.includes(item)).map(({ rule }) => rule);
          return accepts(left, packet) !== (verdict === 'accept');
        });
        if (removals === null) expect(turning).toEqual([]);
        else {
          expect(
            turning.some((gone) => gone.length === removals.length && gone.every((one) => removals.includes(one))),
          ).toBe(true);
          expect(removals.length).toBe(Math.min(...turning.map((gone) => gone.length)));
        }
      }),
      { numRuns: runs(2000) },
    );
  });

  it('names exactly the kinds of rule that would turn the verdict', () => {
    fc.assert(
      fc.property(distinct, packetArbitrary, (rules, packet) => {
        const index = indexRules(rules.map((rule) => ({ rule })));
        const { additions, verdict } = explainPacket(index, packet, everyPort);
        const kinds = (['user', 'global'] as const).flatMap((scope) =>
          (['accept', 'drop'] as const).flatMap((action) =>
            [false, true].map((withPorts): RuleKind => ({ action, scope, withPorts })),
          ),
        );
        const turning = kinds.filter((kind) => {
          if ((kind.scope === 'user' && packet.user === null) || (kind.withPorts && packet.protocol === 'other'))
            return false;
          return (
            decide(indexRules([...rules, ruleFor(kind, packet)].map((rule) => ({ rule }))), packet).verdict !== verdict
          );
        });
        const text = (list: readonly RuleKind[]): string[] => list.map((kind) => JSON.stringify(kind)).sort();
        const key = ({ scope, action, withPorts }: RuleKind): RuleKind => ({ scope, action, withPorts });
        expect(text(additions.map(key))).toEqual(text(turning.map(key)));
      }),
      { numRuns: runs(2000) },
    );
  });
});

describe('explainRule', () => {
  it('names exactly the packets that the rule decides, and those that it matches', () => {
    fc.assert(
      fc.property(
        distinct.filter((rules) => rules.length > 0),
        fc.nat(),
        (rules, pick) => {
          const items = rules.map((rule) => ({ rule }));
          const index = indexRules(items);
          const chosen = items[pick % items.length] as (typeof items)[number];
          const { decides, alone } = explainRule(index, chosen);
          const sources = [null, ...users.filter((user) => rules.some(({ userId }) => userId === user))];
          const all = [...packets(sources)];
          const decided = all.filter((packet) => decide(index, packet).rule === chosen).map(packetKey);
          const matched = all.filter((packet) => matches(chosen.rule, packet)).map(packetKey);
          expect(expandTraffic(decides)).toEqual(decided.sort());
          expect(expandTraffic(alone)).toEqual(matched.sort());
        },
      ),
      { numRuns: runs(5000) },
    );
  });

  it('shows that a drop for a host under an accept for its network decides nothing', () => {
    const accept = {
      rule: { action: 'accept', destination: networkNamed('10.0.0.0/8'), ports: null, userId: null },
    } as const;
    const drop = {
      rule: { action: 'drop', destination: networkNamed('10.1.2.3'), ports: null, userId: null },
    } as const;
    const { decides, alone } = explainRule<{ readonly rule: Rule }>(
      indexRules<{ readonly rule: Rule }>([accept, drop]),
      drop,
    );
    expect(decides).toEqual([]);
    expect(alone.map(({ destinations }) => destinations)).toEqual([['10.1.2.3'], ['10.1.2.3'], ['10.1.2.3']]);
  });
});

function subsets<T>(items: readonly T[]): readonly (readonly T[])[] {
  const sets: (readonly T[])[] = [[]];
  for (const item of items) sets.push(...sets.map((set) => [...set, item]));
  return sets;
}
