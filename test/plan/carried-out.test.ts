import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { LiveRule } from '../../src/model/rule.ts';
import { isCarriedOut, makePlan } from '../../src/plan/make-plan.ts';
import { runs } from '../property/runs.ts';
import { desiredRules, liveRules, planInput } from './support.ts';

const anyRule = fc
  .tuple(
    fc.constantFrom('accept', 'drop'),
    fc.constantFrom('10.0.0.1', '10.0.0.2', '10.1.0.0/16'),
    fc.constantFrom('', ' @alice'),
  )
  .map(([action, destination, who]) => `${action} ${destination}${who}`);

/** What may differ from what the plan leads to. */
const anyFault = fc.constantFrom('none', 'lost', 'undeleted', 'again', 'modified', 'other', 'new object');

it('only a plan of which nothing is left counts as carried out, whatever the server holds', () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(anyRule, { maxLength: 4 }),
      fc.array(anyRule, { maxLength: 4 }),
      fc.array(anyFault, { maxLength: 2 }),
      fc.record({ prune: fc.constantFrom('all' as const, 'none' as const), replaceModified: fc.boolean() }),
      fc.nat(),
      (wanted, present, faults, options, pick) => {
        const input = planInput({ desired: desiredRules(...wanted), live: liveRules(...present), options });
        const plan = makePlan(input);
        const gone = new Set(plan.steps.flatMap((step) => (step.type === 'delete' ? [step.live] : [])));
        let rules: readonly LiveRule[] = [
          ...input.live.rules.filter((one) => !gone.has(one)),
          ...plan.steps.flatMap((step, at) =>
            step.type === 'create'
              ? liveRules('drop 8.8.8.8').map((one) => ({ ...one, id: `n${at}`, rule: step.rule }))
              : [],
          ),
        ];
        for (const fault of faults) {
          const at = rules.length === 0 ? 0 : pick % rules.length;
          const chosen = rules.slice(at, at + 1);
          const put = (...instead: readonly LiveRule[]) => [...rules.slice(0, at), ...instead, ...rules.slice(at + 1)];
          if (fault === 'lost') rules = put();
          if (fault === 'undeleted') rules = [...rules, ...[...gone].slice(0, 1)];
          if (fault === 'again') rules = put(...chosen, ...chosen.map((one) => ({ ...one, id: `${one.id}x` })));
          if (fault === 'modified') rules = put(...chosen.map((one) => ({ ...one, updatedAt: 'later' })));
          if (fault === 'other') rules = put(...liveRules('accept 10.0.0.2').map((one) => ({ ...one, id: 'o' })));
          if (fault === 'new object') rules = put(...chosen.map((one) => ({ ...one })));
        }
        const live = { ...input.live, rules };
        const left = makePlan({ ...input, live }).steps.length;
        if (isCarriedOut(plan, live)) expect(left).toBe(0);
        // Not because it never says so.
        const matches = plan.changes.some(({ action }) => action === 'update');
        if (faults.length === 0) expect(isCarriedOut(plan, live)).toBe(!matches);
      },
    ),
    { numRuns: runs(2000) },
  );
});
