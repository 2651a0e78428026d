import { toWire } from '../model/rule.ts';
import type { Plan, Step } from '../plan/plan.ts';
import type { Traffic } from '../policy/traffic.ts';
import { createRule } from './create-rule.ts';
import { deleteById } from './delete-rule.ts';
import type { Session } from './session.ts';
import { type Settled, settledWell } from './settled.ts';
import { setBack } from './update-rule.ts';

/** A step of an open gap and how it ended. */
export interface Member {
  readonly step: Step;
  readonly settled: Settled;
}

/** The members after restoring, and the traffic of what could not be restored. */
export interface Restored {
  readonly members: readonly Member[];
  readonly leftOpen: readonly Traffic[];
}

/**
 * Undoes a gap that cannot be closed, the last write first: so it passes only through states that it came through, each of
 * which the server accepts. Deleted rules are created again as they were spelled. What another writer made or deleted stays.
 */
export async function restore(members: readonly Member[], plan: Plan, session: Session): Promise<Restored> {
  const undone: Member[] = [];
  const open = new Set<string>();
  for (const member of [...members].reverse()) {
    const { step, settled } = member;
    if (settled.outcome !== 'done' || settled.status === 404) {
      undone.unshift(member);
      continue;
    }
    const after = await undo(step, settled, session);
    if (after === null && step.type !== 'create') open.add(step.id);
    undone.unshift({ step, settled: after ?? settled });
  }
  return { members: undone, leftOpen: trafficOf(plan, open, undone) };
}

/** Null when the step stays done, for undoing it failed. */
async function undo(step: Step, settled: Settled, session: Session): Promise<Settled | null> {
  const { status } = settled;
  switch (step.type) {
    case 'delete': {
      const wire = { ...toWire(step.live.rule), destination: step.live.destinationText };
      const { outcome, liveId } = await createRule({ rule: step.live.rule, wire }, session, 'gap');
      if (!settledWell(outcome)) return null;
      const message = 'deleted, and created again because its gap could not be closed';
      return { outcome: 'failed', status, message, restored: true, ...(liveId === undefined ? {} : { liveId }) };
    }
    case 'create': {
      if (settled.liveId === undefined) return null;
      const { outcome } = await deleteById(settled.liveId, session, 'gap');
      if (!settledWell(outcome)) return null;
      return { outcome: 'failed', status, message: 'created, and deleted again because its gap could not be closed' };
    }
    case 'update': {
      if (!(await setBack(step, session))) return null;
      return { outcome: 'failed', status, message: 'changed, and set back because its gap could not be closed' };
    }
    case 'configure':
      return null;
  }
}

/** What the plan listed as exposed while the deleted rules are missing. */
function trafficOf(plan: Plan, open: ReadonlySet<string>, members: readonly Member[]): readonly Traffic[] {
  if (open.size === 0) return [];
  const missing = new Set(members.flatMap(({ step, settled }) => (settledWell(settled.outcome) ? [] : [step.id])));
  return plan.exposure
    .filter(({ direction, fromStep, toStep }) => direction === 'opened' && (open.has(fromStep) || missing.has(toStep)))
    .flatMap(({ traffic }) => traffic);
}
