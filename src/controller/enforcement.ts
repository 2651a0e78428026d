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
  const { enforcedRevision = null, enforcedAt = null, lagMs = null } = status.enforcement ?? {};
  const before = { enforcedRevision, enforcedAt, lagMs };
  const enforcement: EnforcementView = {
    ...report.counts,
    elements: report.elements,
    ...(report.state === 'enforced' ? lastEnforced(result, kernel, { lagMs, wallTime }) : before),
    findings: report.findings.slice(0, shown).map(({ summary }) => summary),
  };
  return { ...status, conditions, enforcement };
}

/** `lagMs` stays what it was, unless this pass wrote and waited. */
function lastEnforced(
  { content, end }: PassResult,
  { waitedMs }: KernelState,
  { lagMs, wallTime }: { readonly lagMs: number | null; readonly wallTime: number },
): Pick<EnforcementView, 'enforcedRevision' | 'enforcedAt' | 'lagMs'> {
  return {
    enforcedRevision: content?.revision ?? null,
    enforcedAt: wallTime,
    lagMs: (end === 'applied' ? waitedMs : null) ?? lagMs,
  };
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
