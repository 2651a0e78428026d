import fc from 'fast-check';
import { expect, it } from 'vitest';
import { findProfile } from '../../src/model/profile.ts';
import { wholeScope } from '../../src/model/state.ts';
import { diffDesired } from '../../src/plan/diff-desired.ts';
import { defaultPlanOptions } from '../../src/plan/input.ts';
import { makePlan } from '../../src/plan/make-plan.ts';
import { worldArbitrary } from '../property/order-world.ts';
import { runs } from '../property/runs.ts';
import { desiredRules, planInput } from './support.ts';

it('the difference of two states has the changes and the effect of the plan for a server that holds the first', () => {
  fc.assert(
    fc.property(worldArbitrary(8), ({ before, after }) => {
      const [place] = desiredRules('drop 10.0.0.0/8');
      const named = (rules: typeof before) =>
        rules.map((rule, n) => ({ name: `r${n}`, rule, place: place?.place ?? { file: '', line: 1, column: 1 } }));
      const live = before.map((rule, n) => ({
        id: `l${n}`,
        rule,
        destinationText: rule.destination.text,
        insertedAt: '',
        updatedAt: '',
      }));
      const input = planInput({ desired: named(after), live, base: named(before) });
      const plan = makePlan(input);
      const diff = diffDesired({
        before: { ...input.desired, rules: named(before) },
        after: input.desired,
        profile: findProfile('firezone-0.7'),
        scope: wholeScope,
        options: defaultPlanOptions,
      });
      expect(diff.effect).toEqual(plan.effect);
      expect(diff.changes.map(({ action, name }) => [action, name])).toEqual(
        plan.changes.map(({ action, name }) => [action, name]),
      );
    }),
    { numRuns: runs(300) },
  );
});
