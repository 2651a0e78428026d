import { collides, type LiveRule, toWire } from '../model/rule.ts';
import type { Plan, Step } from '../plan/plan.ts';
import type { Traffic } from '../policy/traffic.ts';
import { createRule } from './create-rule.ts';
import { deleteById } from './delete-rule.ts';
import type { Session } from './session.ts';
import { type Settled, settledWell } from './settled.ts';

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
 * Undoes a gap that cannot be closed: what it deleted is created again as it was spelled, the last first; created rules that
 * would collide with one of those are deleted before it.
 */
export async function restore(members: readonly Member[], plan: Plan, session: Session): Promise<Restored> {
  const results = new Map<Step, Settled>(members.map(({ step, settled }) => [step, settled]));
  const open = new Set<string>();
  for (const { step, settled } of [...members].reverse()) {
    if (step.type !== 'delete' || settled.outcome !== 'done' || settled.status === 404) continue;
    for (const [other, result] of results) {
      if (other.type !== 'create' || result.outcome !== 'done' || result.liveId === undefined) continue;
      if (!collides(other.rule, step.live.rule)) continue;
      const undone = await deleteById(result.liveId, session, 'gap');
      if (settledWell(undone.outcome)) results.set(other, undoneCreate(result));
    }
    const created = await recreate(step.live, session);
    if (settledWell(created.outcome)) results.set(step, restoredDelete(settled, created));
    else open.add(step.id);
  }
  const after = [...results].map(([step, settled]) => ({ step, settled }));
  return { members: after, leftOpen: trafficOf(plan, open, after) };
}

function recreate(live: LiveRule, session: Session): Promise<Settled> {
  const wire = { ...toWire(live.rule), destination: live.destinationText };
  return createRule({ rule: live.rule, wire }, session, 'gap');
}

function undoneCreate(result: Settled): Settled {
  return {
    outcome: 'failed',
    status: result.status,
    message: 'created, and deleted again because its gap could not be closed',
  };
}

function restoredDelete(settled: Settled, created: Settled): Settled {
  return {
    outcome: 'failed',
    status: settled.status,
    message: 'deleted, and created again because its gap could not be closed',
    restored: true,
    ...(created.liveId === undefined ? {} : { liveId: created.liveId }),
  };
}

/** What the plan listed as exposed while the deleted rules are missing. */
function trafficOf(plan: Plan, open: ReadonlySet<string>, members: readonly Member[]): readonly Traffic[] {
  if (open.size === 0) return [];
  const missing = new Set(members.flatMap(({ step, settled }) => (settledWell(settled.outcome) ? [] : [step.id])));
  return plan.exposure
    .filter(({ direction, fromStep, toStep }) => direction === 'opened' && (open.has(fromStep) || missing.has(toStep)))
    .flatMap(({ traffic }) => traffic);
}
