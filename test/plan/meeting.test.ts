import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { intersects, Network } from '../../src/model/address.ts';
import { portsIntersect } from '../../src/model/port-range.ts';
import type { Rule } from '../../src/model/rule.ts';
import { eachMeeting } from '../../src/plan/meeting.ts';
import { ruleArbitrary } from '../policy/universe.ts';
import { runs } from '../property/runs.ts';

/** Half of the rules name one network, so that it has more rules than are looked at one by one. */
const crowded = fc.array(ruleArbitrary, { maxLength: 60 }).map((rules) => {
  const shared = new Network(4, 0xc0000200n, 30);
  return rules.map((rule, n) => (n % 2 === 0 ? { ...rule, destination: shared } : rule));
});

function meet(a: Rule, b: Rule): boolean {
  if (!intersects(a.destination, b.destination)) return false;
  if (a.userId !== b.userId && a.userId !== null && b.userId !== null) return false;
  return a.ports === null || b.ports === null || portsIntersect(a.ports, b.ports);
}

describe('rules that share a packet', () => {
  it('are found in pairs, each pair once, the rule of the wider network first; with a question only those that it is about', () => {
    fc.assert(
      fc.property(crowded, fc.integer({ min: 1, max: 8 }), (rules, every) => {
        const isAsked = (n: number): boolean => n % every === 0;
        const found: string[] = [];
        eachMeeting(
          rules.map((rule, n) => ({ rule, n })),
          ({ rule }) => rule,
          (outer, inner) => {
            expect(outer.rule.destination.prefix).toBeLessThanOrEqual(inner.rule.destination.prefix);
            found.push([outer.n, inner.n].sort((a, b) => a - b).join());
          },
          ({ n }) => isAsked(n),
        );
        const isWanted = (i: number, j: number): boolean => i < j && (isAsked(i) || isAsked(j));
        const expected = rules.flatMap((a, i) =>
          rules.flatMap((b, j) => (isWanted(i, j) && meet(a, b) ? [[i, j].join()] : [])),
        );
        expect(found.sort()).toEqual(expected.sort());
      }),
      { numRuns: runs(1_000) },
    );
  });
});
