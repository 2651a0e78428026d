import { ruleKey } from '../model/rule.ts';
import type { Plan, Step } from '../plan/plan.ts';

/** What a step does, the same from pass to pass though ids differ. */
export function stepKey(step: Step): string {
  switch (step.type) {
    case 'create':
      return `create ${ruleKey(step.rule)}`;
    case 'update':
      return `update ${ruleKey(step.rule)}`;
    case 'delete':
      return `delete ${ruleKey(step.live.rule)}`;
    case 'configure':
      return `configure ${step.fields.join(' ')}`;
  }
}

/** What a plan does as a whole. */
export function planKey(plan: Plan): string {
  return plan.steps.map(stepKey).join('\n');
}
