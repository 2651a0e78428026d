import type { KernelState, PassResult } from '../pass/pass.ts';
import { type ConditionUpdate, setCondition } from './conditions.ts';
import type { EnforcementView } from './enforcement-view.ts';
import type { Status } from './status.ts';

const shown = 20;

/** The status after a pass that looked at the kernel; unchanged when nobody looks. */
export function addEnforcement(status: Status, result: PassResult, wallTime: number): Status {
  const { kernel } = result;
  if (kernel === undefined) return status;
  const conditions = setCondition(status.conditions, conditionOf(kernel), wallTime);
  const before = status.enforcement ?? null;
  const { report, waitedMs } = kernel;
  if (report.state === 'unreadable') return { ...status, conditions };
  const enforced = report.state === 'enforced';
  const measured = enforced && result.end === 'applied' ? waitedMs : null;
  const enforcement: EnforcementView = {
    ...report.counts,
    elements: report.elements,
    enforcedRevision: enforced ? (result.content?.revision ?? null) : (before?.enforcedRevision ?? null),
    enforcedAt: enforced ? wallTime : (before?.enforcedAt ?? null),
    lagMs: measured ?? before?.lagMs ?? null,
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
