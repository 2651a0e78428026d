import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { intersects } from '../../../src/model/address.ts';
import type { DesiredRule, LiveRule } from '../../../src/model/rule.ts';
import { changedFields } from '../../../src/plan/fields.ts';
import { pairGreedily } from '../../../src/plan/match/pair-greedily.ts';
import { rulesArbitrary } from '../../policy/universe.ts';
import { liveOf } from '../../property/order-world.ts';
import { runs } from '../../property/runs.ts';

/** The same, by looking at every live rule for each desired one. */
function byTrying(desired: readonly DesiredRule[], live: readonly LiveRule[]): readonly string[] {
  const free = [...live];
  return desired.flatMap(({ name, rule }) => {
    const candidates = free
      .filter((one) => one.rule.userId === rule.userId && intersects(one.rule.destination, rule.destination))
      .toSorted((a, b) => changedFields(a.rule, rule) - changedFields(b.rule, rule));
    const [taken] = candidates;
    if (taken === undefined) return [];
    free.splice(free.indexOf(taken), 1);
    return [`${name} ${taken.id}`];
  });
}

describe('pairing rules one by one', () => {
  it('gives each the related rule with the fewest changed fields, the first of several', () => {
    fc.assert(
      fc.property(rulesArbitrary, rulesArbitrary, (after, before) => {
        const place = { file: 'f', line: 1, column: 1 };
        const desired = after.map((rule, n) => ({ name: `r${n}`, rule, place }));
        const live = liveOf(before);
        const pairs = pairGreedily(desired, live).map((pair) => `${pair.desired.name} ${pair.live.id}`);
        expect(pairs).toEqual(byTrying(desired, live));
      }),
      { numRuns: runs(2_000) },
    );
  });
});
