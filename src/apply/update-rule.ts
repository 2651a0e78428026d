import { ok } from '../model/result.ts';
import { formatRuleKey, type Rule, toWire, type WireRule } from '../model/rule.ts';
import type { UpdateStep } from '../plan/plan.ts';
import { isOverlap } from './answer-text.ts';
import { checkAnswer, settleDiffering } from './check-answer.ts';
import type { Session } from './session.ts';
import { isSuccess, type Settled, sendWrite, settleFailed, settleUnknown, type WriteOrder } from './write.ts';

/** A PATCH: what it sends, and the rule that it asks for. */
interface Patch {
  readonly id: string;
  readonly fields: Partial<WireRule>;
  readonly rule: Rule;
}

/** What becomes of a rule that the server stored differently: the end of its text. */
type Undo = () => Promise<string>;

/** PATCHes a rule with the fields that change. */
export function updateRule(step: UpdateStep, session: Session, order: WriteOrder): Promise<Settled> {
  const { live, rule } = step;
  return patchRule({ id: live.id, fields: selectChanged(step), rule }, session, order, async () => {
    const back = await setBack(step, session, order);
    return back ? 'it was set back' : 'it could not be set back';
  });
}

/** PATCHes the rule back to what was live, as it was spelled; false when that could not be done. */
export async function setBack({ live }: UpdateStep, session: Session, order: WriteOrder): Promise<boolean> {
  const fields = { ...toWire(live.rule), destination: live.destinationText };
  const patch = { id: live.id, fields, rule: live.rule };
  const settled = await patchRule(patch, session, { ...order, priority: 'gap' }, async () => 'it was left so');
  return isSuccess(settled.outcome);
}

/** A rule that is gone, or an overlap that the plan did not know of, is a surprise: the plan is made again. */
function patchRule(patch: Patch, session: Session, order: WriteOrder, undo: Undo): Promise<Settled> {
  const { id, fields, rule } = patch;
  const request = `PATCH /v0/rules/${id}`;
  /** The live rule with that id, told apart by whether it is as it was asked for. */
  const look = async () => {
    const listed = await session.freshRules(order.priority);
    if (!listed.ok) return listed;
    const live = listed.value.find((one) => one.id === id);
    return ok(live === undefined ? 'gone' : formatRuleKey(live.rule) === formatRuleKey(rule) ? 'done' : 'open');
  };
  const done = (status: number | null): Settled => ({ outcome: 'done', status, liveId: id });
  return sendWrite(
    {
      method: 'PATCH',
      path: `/v0/rules/${id}`,
      rule: formatRuleKey(rule),
      call: (signal) => session.context.api.updateRule(id, fields, signal),
      accept: async (answer) => {
        const check = checkAnswer(rule, answer.body);
        if (check.kind === 'unreadable') return null;
        if (check.kind === 'same') return done(answer.status);
        return settleDiffering(check, { rule, request, status: answer.status, undo: await undo() }, session);
      },
      refuse: async (answer) => {
        const surprise = { ...settleFailed(answer, request), surprise: true };
        if (answer.status === 404) return surprise;
        if (!isOverlap(answer)) return null;
        const seen = await look();
        if (!seen.ok) return settleUnknown(answer, request, seen.error);
        if (seen.value === 'done') return done(answer.status);
        session.collisionsSeen ||= seen.value === 'open';
        return surprise;
      },
      find: async (answer) => {
        const seen = await look();
        if (!seen.ok) return seen;
        if (seen.value === 'gone') return ok({ ...settleFailed(answer, request), surprise: true });
        return ok(seen.value === 'done' ? done(answer.status) : null);
      },
    },
    session,
    order,
  );
}

/** The wire fields that differ; a destination that only differs in host bits is left as it is stored. */
function selectChanged(step: UpdateStep): Partial<WireRule> {
  const before = toWire(step.live.rule);
  const after = toWire(step.rule);
  return {
    ...(after.action === before.action ? {} : { action: after.action }),
    ...(after.destination === before.destination ? {} : { destination: after.destination }),
    ...(after.port_range === before.port_range ? {} : { port_range: after.port_range }),
    ...(after.port_type === before.port_type ? {} : { port_type: after.port_type }),
    ...(after.user_id === before.user_id ? {} : { user_id: after.user_id }),
  };
}
