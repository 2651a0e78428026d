import type { LiveRule, Rule } from '../model/rule.ts';
import type { ConfigurationDecision } from './decide-configuration.ts';
import type { Operation } from './operations.ts';
import type { Ordered } from './order/order.ts';
import type { Step } from './plan.ts';

/** The steps in their listed order: those of the rules, then the Configuration's (`change`: the index of its change). */
export function makeSteps(
  ordered: readonly Ordered[],
  configuration: ConfigurationDecision | null,
  change: number,
): readonly Step[] {
  const ids = ordered.map((_, index) => formatStepId(index));
  const steps = ordered.map((entry, index) => ruleStep(entry, index, ids));
  if (configuration === null || configuration.sent.length === 0) return steps;
  const { change: decided, sent } = configuration;
  const id = formatStepId(steps.length);
  return [...steps, { type: 'configure', id, change, after: [], gap: null, desired: decided.desired, fields: sent }];
}

/** The id of the step at a position of the listed order. */
export function formatStepId(index: number): string {
  return `s${index + 1}`;
}

function ruleStep({ operation, after, gap }: Ordered, index: number, ids: readonly string[]): Step {
  const base = {
    id: ids[index] as string,
    change: operation.change,
    after: after.map((position) => ids[position] as string),
    gap: gap === null ? null : `g${gap + 1}`,
  };
  switch (operation.type) {
    case 'create':
      return { ...base, type: 'create', rule: added(operation) };
    case 'delete':
      return { ...base, type: 'delete', live: live(operation), mayRebuild: operation.mayRebuild };
    case 'update':
      return { ...base, type: 'update', live: live(operation), rule: added(operation) };
  }
}

function added({ added: rule }: Operation): Rule {
  if (rule === null) throw new Error('a create or update adds a rule');
  return rule;
}

function live({ live: rule }: Operation): LiveRule {
  if (rule === null) throw new Error('a delete or update removes a live rule');
  return rule;
}
