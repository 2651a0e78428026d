import { describe, expect, it } from 'vitest';
import { findProfile } from '../../src/model/profile.ts';
import { formatRuleKey } from '../../src/model/rule.ts';
import { makePlan } from '../../src/plan/make-plan.ts';
import type { Plan } from '../../src/plan/plan.ts';
import { desiredRules, liveRules, planInput } from './support.ts';

/** The steps as one line each: `- key` delete, `+ key` create, `~ key` update. */
function shown(plan: Plan): readonly string[] {
  return plan.steps.map((step) => {
    if (step.type === 'configure') return `configure ${step.fields.join(' ')}`;
    if (step.type === 'delete') return `- ${formatRuleKey(step.live.rule)}`;
    return `${step.type === 'create' ? '+' : '~'} ${formatRuleKey(step.rule)}`;
  });
}

describe('a plan', () => {
  it('is empty when live equals desired', () => {
    const rules = ['accept 10.0.0.0/8', 'drop 10.0.0.0/8', 'drop ::/0 @alice'];
    const plan = makePlan(planInput({ desired: desiredRules(...rules), live: liveRules(...rules) }));
    expect(plan.steps).toEqual([]);
    expect(plan.changes.map(({ action, reason }) => [action, reason])).toEqual(rules.map(() => ['keep', 'in-sync']));
  });

  it('creates from the highest rank to the lowest, then deletes from the lowest to the highest', () => {
    const plan = makePlan(
      planInput({
        desired: desiredRules('drop 10.0.0.0/8', 'accept 10.0.0.0/8 tcp/443 @alice', 'accept 10.1.0.0/16'),
        live: liveRules('accept 10.9.0.0/16 tcp/80 @alice', 'drop 11.0.0.0/8'),
      }),
    );
    expect(shown(plan).map((line) => line.slice(0, 18))).toEqual([
      '+ accept 10.0.0.0/',
      '+ accept 10.1.0.0/',
      '+ drop 10.0.0.0/8 ',
      '- drop 11.0.0.0/8 ',
      '- accept 10.9.0.0/',
    ]);
  });

  it('deletes what a created rule collides with just before creating it', () => {
    const plan = makePlan(
      planInput({
        desired: desiredRules('drop 10.0.0.0/8', 'accept 11.0.0.0/8'),
        live: liveRules('drop 10.1.0.0/16', 'drop 10.2.0.0/16', 'drop 12.0.0.0/8'),
      }),
    );
    const [first, second, third] = plan.steps.slice(1);
    expect([first?.type, second?.type, third?.type]).toEqual(['delete', 'delete', 'create']);
    expect(third?.after).toEqual([first?.id, second?.id]);
  });

  it('patches a changed rule where the server is patched, with the changed fields', () => {
    const plan = makePlan(
      planInput(
        { desired: desiredRules('drop 10.0.0.0/8'), live: liveRules('accept 10.0.0.0/8') },
        { profile: findProfile('generic') },
      ),
    );
    expect(shown(plan)).toEqual(['~ drop 10.0.0.0/8 *']);
    expect(plan.changes[0]?.fields).toEqual({ action: { before: 'accept', after: 'drop' } });
  });

  it.each([
    [
      'replace',
      ['+ accept 10.1.0.0/16 *', '- drop 10.1.0.0/16 *', '+ drop 10.2.0.0/16 *', '- accept 10.2.0.0/16 tcp 53-53 *'],
    ],
    ['patch', ['~ accept 10.1.0.0/16 *', '+ drop 10.2.0.0/16 *', '- accept 10.2.0.0/16 tcp 53-53 *']],
  ] as const)('tells a changed action as an edit only where nothing else changes: %s', (ruleUpdates, steps) => {
    const plan = makePlan(
      planInput(
        {
          desired: desiredRules('accept 10.1.0.0/16', 'drop 10.2.0.0/16'),
          live: liveRules('drop 10.1.0.0/16', 'accept 10.2.0.0/16 tcp/53'),
        },
        { profile: findProfile('firezone-0.7', ruleUpdates) },
      ),
    );
    expect(plan.changes.map(({ action }) => action)).toEqual(['update', 'create', 'delete']);
    expect(shown(plan).toSorted()).toEqual(steps.toSorted());
  });
});
