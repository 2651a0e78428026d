import { formatRuleKey } from '../model/rule.ts';
import type { Plan, Step } from '../plan/plan.ts';

/** What a step does, the same from pass to pass though ids differ. */
export function formatStepKey(step: Step): string {
  switch (step.type) {
    case 'create':
      return `create ${formatRuleKey(step.rule)}`;
    case 'update':
      return `update ${formatRuleKey(step.rule)}`;
    case 'delete':
      return `delete ${formatRuleKey(step.live.rule)}`;
    case 'configure':
      return `configure ${step.fields.join(' ')}`;
  }
}

/** What a plan does as a whole. */
export function formatPlanKey(plan: Plan): string {
  return plan.steps.map(formatStepKey).join('\n');
}
