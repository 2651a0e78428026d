import { findAlwaysFailures, runPolicyTests } from '../../policy/tests.ts';
import { describeCase, describeFailure, describePacket } from '../../policy/words.ts';
import type { PlanInput } from '../input.ts';
import type { Change, Exposure, Refusal, RuleChange } from '../plan.ts';
import { collectNamedUsers } from './guard-traffic.ts';

/** Policy tests that the rules after the plan do not pass, and those that must always hold and do not on the way. */
export function refuseFailedTests(
  input: PlanInput,
  changes: readonly Change[],
  exposure: readonly Exposure[],
): readonly Refusal[] {
  const { tests, userNames: names } = input.desired;
  if (tests.length === 0) return [];
  const { at = Number.POSITIVE_INFINITY } = input.desired;
  const standing = changes.flatMap((change) => ruleAfter(change, at));
  const failing = runPolicyTests(tests, standing, input.profile.ports);
  const after = failing.flatMap(({ case: one, failure }): Refusal[] => {
    if (failure === null) return [];
    const { rule } = failure;
    const related = [{ place: one.place, note: `the case \`${one.name}\`` }];
    const decider = rule === null ? null : 'change' in rule ? rule.change : { ...rule, id: null, source: rule.place };
    if (decider?.source) related.push({ place: decider.source, note: `${labelOf(decider)} decides` });
    return [
      {
        code: 'policy-test-failed',
        summary: `Policy test: ${describeFailure(one, failure, { names, rule: decider === null ? null : labelOf(decider) })}`,
        hint: 'Change the rules, or the test if the policy has changed; `reconcile test` runs the tests without a server.',
        related,
      },
    ];
  });
  const between = findAlwaysFailures(tests, exposure, collectNamedUsers(changes)).map((failure): Refusal => {
    const { case: one, packet, verdict } = failure;
    return {
      code: 'policy-test-failed-on-the-way',
      summary: `Policy test: \`${one.name}\` must always hold (${one.expect} for ${describeCase(one, names)}); while this plan is applied, ${describePacket(packet, names)} gets ${verdict} for a moment.`,
      hint: 'Make the change in two steps that never expose this traffic, or take `always: true` off the case.',
      related: [{ place: one.place, note: `the case \`${one.name}\`` }],
    };
  });
  return [...after, ...between];
}

/** The rule that stands after the plan, with its change; none where it begins later. */
function ruleAfter(change: Change, at: number) {
  if (change.kind !== 'Rule' || change.action === 'delete' || (change.desired?.notBefore ?? at) > at) return [];
  const rule = (change.desired ?? change.live)?.rule;
  return rule === undefined ? [] : [{ rule, change }];
}

function labelOf({ name, id }: Pick<RuleChange, 'name' | 'id'>): string {
  return name === null ? `the live rule ${id}` : `\`${name}\``;
}
