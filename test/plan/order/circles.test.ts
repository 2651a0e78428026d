import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Network } from '../../../src/model/address.ts';
import { findProfile } from '../../../src/model/profile.ts';
import type { Rule } from '../../../src/model/rule.ts';
import { makePlan } from '../../../src/plan/make-plan.ts';
import { holds, linearExtension, liveOf, statesOf } from '../../property/order-world.ts';
import { runs } from '../../property/runs.ts';
import { planInput } from '../support.ts';

const places = 7;

/** The n-th of some networks, or a part of it: a rule moved there collides with whatever is there. */
function ruleAt(place: number, narrower: boolean): Rule {
  return {
    action: 'drop',
    destination: new Network(4, BigInt(0x0a000000 + place * 256), narrower ? 25 : 24),
    ports: null,
    userId: null,
  };
}

/** Some rules in places of their own, each of which moves to another place, all to different ones. */
const moves = fc
  .tuple(fc.integer({ min: 2, max: 6 }), fc.shuffledSubarray([...Array(places).keys()], { minLength: places }))
  .map(([count, to]) => ({ count, to: to.slice(0, count) }));

/** The fewest moves to take back so that the rest can be done one after the other, by trying every choice. */
function fewestByTrying(count: number, to: readonly number[]): number {
  let fewest = count;
  for (let taken = 0; taken < 2 ** count; taken++) {
    const size = [...Array(count).keys()].filter((n) => (taken >> n) & 1).length;
    if (size >= fewest) continue;
    const left = new Set([...Array(count).keys()].filter((n) => ((taken >> n) & 1) === 0));
    for (let moved = true; moved; ) {
      moved = false;
      for (const n of left) {
        const place = to[n] ?? 0;
        if (place !== n && left.has(place)) continue;
        left.delete(n);
        moved = true;
      }
    }
    if (left.size === 0) fewest = size;
  }
  return fewest;
}

describe('updates that wait for each other in a circle', () => {
  it('are broken by the fewest replacements, and every state is one that the server accepts', () => {
    fc.assert(
      fc.property(moves, fc.array(fc.nat(), { minLength: 20, maxLength: 20 }), ({ count, to }, choices) => {
        const place = { file: 'f', line: 1, column: 1 };
        const before = Array.from({ length: count }, (_, n) => ruleAt(n, false));
        const named = (rules: readonly Rule[]) => rules.map((rule, n) => ({ name: `r${n}`, rule, place }));
        const input = planInput(
          { desired: named(to.map((target) => ruleAt(target, true))), live: liveOf(before), base: named(before) },
          { profile: findProfile('firezone-0.7', 'patch') },
        );
        const plan = makePlan(input);
        expect(plan.changes.filter(({ via }) => via === 'replace')).toHaveLength(fewestByTrying(count, to));
        let next = 0;
        const steps = linearExtension(plan, (ready) => (choices[next++ % choices.length] ?? 0) % ready);
        for (const state of statesOf(before, steps)) expect(holds(state)).toBe(true);
      }),
      { numRuns: runs(1_000) },
    );
  });

  it('are broken in circles of more than eight rules too', () => {
    const place = { file: 'f', line: 1, column: 1 };
    const before = Array.from({ length: 40 }, (_, n) => ruleAt(n, false));
    const after = before.map((_, n) => ruleAt((n + 1) % 40, true));
    const named = (rules: readonly Rule[]) => rules.map((rule, n) => ({ name: `r${n}`, rule, place }));
    const plan = makePlan(
      planInput(
        { desired: named(after), live: liveOf(before), base: named(before) },
        { profile: findProfile('firezone-0.7', 'patch') },
      ),
    );
    expect(plan.changes.filter(({ via }) => via === 'replace')).toHaveLength(1);
    for (const state of statesOf(before, plan.steps)) expect(holds(state)).toBe(true);
  });
});
