import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Rule, ruleKey } from '../../src/model/rule.ts';
import { cellsOf } from '../../src/policy/cells.ts';
import { indexRules } from '../../src/policy/rule-index.ts';
import { matches, rankOf } from '../../src/policy/verdict.ts';
import { runs } from '../property/runs.ts';
import { packets, rulesArbitrary, users } from './universe.ts';

const distinct = rulesArbitrary.map((rules) => [...new Map(rules.map((rule) => [ruleKey(rule), rule])).values()]);

/** Counts the regions by trying every packet. */
function countByHand(rules: readonly Rule[], changed: ReadonlySet<Rule>): Record<string, number> {
  const sources = [null, ...users.filter((user) => rules.some(({ userId }) => userId === user))];
  const seen = new Set<string>();
  const counts: Record<string, number> = {};
  for (const packet of packets(sources)) {
    const matching = rules.filter((rule) => matches(rule, packet));
    if (!matching.some((rule) => changed.has(rule))) continue;
    const region = `${packet.user} ${packet.address.family} ${packet.protocol} ${matching.map(ruleKey).sort()}`;
    if (seen.has(region)) continue;
    seen.add(region);
    const kept = Math.min(8, ...matching.filter((rule) => !changed.has(rule)).map(rankOf));
    const key = signature(
      kept,
      matching.filter((rule) => changed.has(rule)),
    );
    counts[key] = (counts[key] ?? 0) + 1;
  }
  return counts;
}

function signature(keptRank: number, changed: readonly Rule[]): string {
  return `${keptRank} ${changed.map(ruleKey).sort().join(' + ')}`;
}

describe('cellsOf', () => {
  it('counts exactly the regions that a changed rule matches', () => {
    fc.assert(
      fc.property(distinct, fc.infiniteStream(fc.boolean()), (rules, coin) => {
        const changed = rules.filter(() => coin.next().value);
        const items = rules.map((rule) => ({ rule }));
        const index = indexRules(items);
        const cells = cellsOf(
          index,
          items.filter(({ rule }) => changed.includes(rule)),
        );
        const found = cells.map((cell) => [
          signature(
            cell.keptRank,
            cell.changed.map(({ rule }) => rule),
          ),
          cell.weight,
        ]);
        expect(Object.fromEntries(found)).toEqual(countByHand(rules, new Set(changed)));
        expect(found.length).toBe(new Set(found.map(([key]) => key)).size);
      }),
      { numRuns: runs(5000) },
    );
  });
});
