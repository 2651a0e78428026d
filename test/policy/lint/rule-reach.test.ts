import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatRuleKey, type Rule } from '../../../src/model/rule.ts';
import { decide } from '../../../src/policy/decide-packet.ts';
import { findLeaders } from '../../../src/policy/lint/finding.ts';
import { computeRuleReach, type RuleReach } from '../../../src/policy/lint/lint.ts';
import { indexRules } from '../../../src/policy/rule-index.ts';
import { runs } from '../../property/runs.ts';
import { accepts, packets, rulesArbitrary, users } from '../universe.ts';

const distinct = rulesArbitrary.map((rules) => [...new Map(rules.map((rule) => [formatRuleKey(rule), rule])).values()]);

describe('computeRuleReach', () => {
  it('agree with trying every packet: what never decides, what could go without a trace, what matters', () => {
    fc.assert(
      fc.property(distinct, (rules) => {
        const items = rules.map((rule) => ({ rule }));
        const index = indexRules(items);
        const all = [...packets([null, ...users.filter((user) => rules.some(({ userId }) => userId === user))])];
        const decides = new Set(all.map((packet) => decide(index, packet).rule?.rule));
        const verdicts = (left: readonly Rule[]): string => all.map((packet) => accepts(left, packet)).join();
        const whole = verdicts(rules);
        const expected = rules.map((rule): RuleReach => {
          if (verdicts(rules.filter((one) => one !== rule)) !== whole) return 'matters';
          return decides.has(rule) ? 'idle' : 'never';
        });
        const found = computeRuleReach(index, findLeaders(index));
        expect(items.map((item) => found.get(item))).toEqual(expected);
      }),
      { numRuns: runs(2500) },
    );
  });
});
