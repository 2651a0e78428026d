import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Rule, ruleKey } from '../../src/model/rule.ts';
import { renderTraffic } from '../../src/policy/render.ts';
import { indexRules } from '../../src/policy/rule-index.ts';
import { transitTraffic } from '../../src/policy/transit.ts';
import { runs } from '../property/runs.ts';
import { accepts, expandTraffic, packetKey, packets, rulesArbitrary, users } from './universe.ts';

const distinct = rulesArbitrary.map((rules) => [...new Map(rules.map((rule) => [ruleKey(rule), rule])).values()]);

describe('transitTraffic', () => {
  it('names, for each state between, exactly the packets whose verdict is neither that before nor that after', () => {
    const states = fc.integer({ min: 1, max: 20 });
    fc.assert(
      fc.property(distinct, states, fc.infiniteStream(fc.integer({ min: 0, max: 7 })), (rules, count, dice) => {
        const items = rules.map((rule) => {
          const kind = dice.next().value ?? 0;
          const between = Array.from({ length: count }, () => (dice.next().value ?? 0) % 2 === 0);
          // Most rules never change, as in a plan.
          if (kind < 4) return { rule, before: true, after: true, between: between.map(() => true) };
          return { rule, before: kind % 2 === 0, after: kind % 2 === 1, between };
        });
        const found = transitTraffic({
          index: indexRules(items),
          before: (item) => item.before,
          after: (item) => item.after,
          between: Array.from({ length: count }, (_, i) => (item: (typeof items)[number]) => item.between[i] ?? false),
          changed: items.filter(({ before, after }) => before !== after),
        });
        const sources = [null, ...users.filter((user) => rules.some(({ userId }) => userId === user))];
        const rulesIn = (holds: (item: (typeof items)[number]) => boolean): readonly Rule[] =>
          items.filter(holds).map(({ rule }) => rule);
        for (const [i, { opened, cutOff }] of found.entries()) {
          const expected: { opened: string[]; cutOff: string[] } = { opened: [], cutOff: [] };
          for (const packet of packets(sources)) {
            const was = accepts(
              rulesIn(({ before }) => before),
              packet,
            );
            const is = accepts(
              rulesIn(({ between }) => between[i] ?? false),
              packet,
            );
            const will = accepts(
              rulesIn(({ after }) => after),
              packet,
            );
            if (was === will && is !== was) expected[is ? 'opened' : 'cutOff'].push(packetKey(packet));
          }
          expect(expandTraffic(renderTraffic(opened))).toEqual(expected.opened.sort());
          expect(expandTraffic(renderTraffic(cutOff))).toEqual(expected.cutOff.sort());
        }
      }),
      { numRuns: runs(500) },
    );
  });
});
