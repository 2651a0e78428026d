import { collectReachable } from '../model/group-by.ts';
import { collides, formatRuleKey } from '../model/rule.ts';
import type { Plan, Step } from '../plan/plan.ts';
import type { Traffic } from '../policy/traffic.ts';
import { isSuccess, judgeSettled, type Outcome, type Settled } from './outcome.ts';
import type { Session } from './session.ts';
import type { WriteOrder } from './write.ts';
import { createRule, deleteRule, setBack } from './write-rule.ts';

/**
 * Undoes a gap that cannot be closed, the last write first: the server accepted each state on that way. Deleted rules are created again
 * as they were spelled, also where nobody knows whether they were deleted. What another writer made or deleted stays, and with a step
 * that stays what it waited for (`mayGoBefore`). Gives the members after that, and the traffic of what could not be restored.
 */
export async function restore(
  members: readonly Outcome[],
  plan: Plan,
  session: Session,
  noteOf: (step: Step) => WriteOrder['note'],
): Promise<{ readonly members: readonly Outcome[]; readonly leftOpen: readonly Traffic[] }> {
  const undone: Outcome[] = [];
  const open = new Set<string>();
  // Steps that were carried out, or may have been, and are not undone; with the ids of all that had to be done before.
  const staying: { readonly step: Step; readonly waitedFor: ReadonlySet<string> }[] = [];
  const byId = new Map(plan.steps.map((step) => [step.id, step]));
  for (const member of [...members].reverse()) {
    const { step, outcome } = member;
    const ours = outcome === 'done' && member.byOther !== true;
    const mayBeGone = outcome === 'unknown' && step.type === 'delete';
    const free = staying.every((later) => !later.waitedFor.has(step.id) || mayGoBefore(step, later.step, session));
    const mayUndo = free && (ours || (mayBeGone && session.refusesCollisions()));
    const after = mayUndo ? await undo(member, { session, priority: 'gap', note: noteOf(step) }) : null;
    if (after === null && outcome !== 'failed' && outcome !== 'dropped')
      staying.push({ step, waitedFor: collectReachable(step.after, (id) => byId.get(id)?.after ?? []) });
    if (after === null && (mayBeGone || (ours && step.type !== 'create'))) open.add(step.id);
    const { mayLand } = judgeSettled(member); // what comes late is not undone
    undone.unshift(after === null ? member : { step, ...after, ...(mayLand && { mayLand }) });
  }
  return { members: undone, leftOpen: trafficOf(plan, open, undone) };
}

/** Whether a step may be undone though one that waited for it stays: where that can only turn verdicts to drop. */
function mayGoBefore(step: Step, staying: Step, session: Session): boolean {
  const removed = step.type === 'create' || step.type === 'update' ? step.rule : null;
  const added = step.type === 'delete' || step.type === 'update' ? step.live.rule : null;
  if (removed?.action !== 'drop' && added?.action !== 'accept') return true;
  const stays = staying.type === 'create' || staying.type === 'update' ? staying.rule : null;
  return session.refusesCollisions() && added !== null && stays !== null && collides(added, stays);
}

/** Null when the step stays done, for undoing it failed. */
async function undo({ step, status, liveId: id }: Outcome, order: WriteOrder): Promise<Settled | null> {
  if (step.type === 'configure') return null;
  if (step.type === 'delete') {
    const { rule, destinationText } = step.live;
    const again = await createRule(rule, order, {}, destinationText);
    if (!isSuccess(again)) return null;
    const message = 'deleted, and created again because its gap could not be closed';
    return { ...again, outcome: 'failed', status, message, restored: true };
  }
  if (step.type === 'create') {
    if (id === undefined) return null;
    // Until all is undone, the gap still needs what is deleted here.
    const note = { ...order.note, owes: [formatRuleKey(step.rule)] };
    if (!isSuccess(await deleteRule(id, step.rule, { ...order, note }))) return null;
    return { outcome: 'failed', status, message: 'created, and deleted again because its gap could not be closed' };
  }
  if (!(await setBack(step, order))) return null;
  return { outcome: 'failed', status, message: 'changed, and set back because its gap could not be closed' };
}

/** What the plan listed as exposed while the deleted rules are missing. */
function trafficOf(plan: Plan, open: ReadonlySet<string>, members: readonly Outcome[]): readonly Traffic[] {
  if (open.size === 0) return [];
  const missing = new Set(members.flatMap((one) => (isSuccess(one) ? [] : [one.step.id])));
  return plan.exposure
    .filter(({ direction, fromStep, toStep }) => direction === 'opened' && (open.has(fromStep) || missing.has(toStep)))
    .flatMap(({ traffic }) => traffic);
}
