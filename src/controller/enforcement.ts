import type { KernelState, PassResult } from '../pass/pass.ts';
import { type ConditionUpdate, setCondition } from './conditions.ts';
import type { EnforcementView, Status } from './status.ts';

const shown = 20;

/** The status after a pass that looked at the kernel; unchanged when nobody looks. */
export function addEnforcement(status: Status, result: PassResult, wallTime: number): Status {
  const { kernel } = result;
  if (kernel === undefined) return status;
  const conditions = setCondition(status.conditions, conditionOf(kernel), wallTime);
  const { report } = kernel;
  if (report.state === 'unreadable') return { ...status, conditions };
  const before = status.enforcement ?? { enforcedRevision: null, enforcedAt: null, lagMs: null };
  const isEnforced = report.state === 'enforced';
  const enforcement: EnforcementView = {
    ...report.counts,
    elements: report.elements,
    enforcedRevision: isEnforced ? (result.content?.revision ?? null) : before.enforcedRevision,
    enforcedAt: isEnforced ? wallTime : before.enforcedAt,
    // Stays what it was, unless this pass wrote and waited.
    lagMs: (isEnforced && result.end === 'applied' ? kernel.waitedMs : null) ?? before.lagMs,
    findings: report.findings.slice(0, shown).map(({ summary }) => summary),
  };
  return { ...status, conditions, enforcement };
}

function conditionOf({ report }: KernelState): ConditionUpdate {
  const { counts, liveRules } = report;
  switch (report.state) {
    case 'enforced':
      return {
        type: 'Enforced',
        status: 'True',
        reason: 'Enforced',
        message: `the kernel holds the ${liveRules} live rules and nothing else`,
      };
    case 'unreadable':
      return { type: 'Enforced', status: 'Unknown', reason: 'KernelUnreadable', message: report.message ?? '' };
    case 'differs':
      return {
        type: 'Enforced',
        status: 'False',
        reason: 'NotEnforced',
        message: `in the kernel: ${counts.missing} missing, ${counts.stale} stale, ${counts.extra} extra, ${counts.structure} other differences`,
      };
  }
}
