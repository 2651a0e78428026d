import { ruleKey, toWire, type WireRule } from '../model/rule.ts';
import type { UpdateStep } from '../plan/plan.ts';
import type { ApiAnswer } from '../ports.ts';
import { checkAnswer } from './compare.ts';
import { isOverlap } from './create-rule.ts';
import type { Lane } from './gate.ts';
import { portsDropped } from './port-rules.ts';
import { backoffMs, kindOf } from './retry.ts';
import type { Session } from './session.ts';
import { refused, type Settled, unknown } from './settled.ts';

/**
 * PATCHes a rule with the fields that change. Repeating a PATCH is safe, yet after a lost answer the list is read first. A rule
 * that is gone, or an overlap that the plan did not know of, is a surprise: the plan is made again.
 */
export async function updateRule(step: UpdateStep, session: Session, lane: Lane): Promise<Settled> {
  const { api, clock } = session.context;
  const { id } = step.live;
  const request = `PATCH /v0/rules/${id}`;
  const fields = changedFields(step);
  for (let attempt = 0; ; attempt++) {
    const answer = await session.write((signal) => api.updateRule(id, fields, signal));
    const kind = kindOf(answer);
    if (kind === 'success' && answer.kind === 'answer') {
      const checked = await checkUpdated(step, answer, session);
      if (checked !== null) return checked;
    }
    if (kind === 'broken') return refused(answer, request);
    if (kind === 'unauthorized' && lane === 'normal') return { ...refused(answer, request), unauthorized: true };
    if (kind === 'unauthorized') session.stop('unauthorized');
    if (kind === 'refused' && answer.status === 404) return { ...refused(answer, request), surprise: true };
    if (kind === 'refused' && !isOverlap(answer)) return refused(answer, request);
    if (kind === 'limited' && answer.kind === 'answer')
      session.gate.pause(answer.retryAfterMs ?? backoffMs(attempt, clock));
    if (answer.kind === 'lost' && answer.code === 'refused') await session.freshRules(lane);
    if (kind === 'success' || kind === 'uncertain' || kind === 'refused') {
      const listed = await session.freshRules(lane);
      if (!listed.ok) return unknown(answer, request, listed.error);
      const live = listed.value.find((rule) => rule.id === id);
      if (live === undefined) return { ...refused(answer, request), surprise: true };
      if (ruleKey(live.rule) === ruleKey(step.rule)) return { outcome: 'done', status: answer.status, liveId: id };
      if (kind === 'refused') {
        session.collisionsSeen = true;
        return { ...refused(answer, request), surprise: true };
      }
    }
    if (!(await session.retry(attempt, lane))) return refused(answer, request);
  }
}

/** The wire fields that differ; a destination that only differs in host bits is left as it is stored. */
function changedFields(step: UpdateStep): Partial<WireRule> {
  const before = toWire(step.live.rule);
  const after = toWire(step.rule);
  const changed: { -readonly [K in keyof WireRule]?: WireRule[K] } = {};
  if (after.action !== before.action) changed.action = after.action;
  if (after.destination !== before.destination) changed.destination = after.destination;
  if (after.port_range !== before.port_range) changed.port_range = after.port_range;
  if (after.port_type !== before.port_type) changed.port_type = after.port_type;
  if (after.user_id !== before.user_id) changed.user_id = after.user_id;
  return changed;
}

async function checkUpdated(step: UpdateStep, answer: ApiAnswer, session: Session): Promise<Settled | null> {
  const check = checkAnswer(step.rule, answer.body);
  switch (check.kind) {
    case 'unreadable':
      return null;
    case 'same':
      return { outcome: 'done', status: answer.status, liveId: step.live.id };
    case 'ports-dropped':
    case 'differs': {
      const undo = (await setBack(step, session)) ? 'it was set back' : 'it could not be set back';
      if (check.kind === 'ports-dropped') return portsDropped(step.rule, answer.status, undo, session);
      const message = `PATCH /v0/rules/${step.live.id}: the server stored \`${check.stored}\` instead of \`${ruleKey(step.rule)}\`; ${undo}`;
      const problem = { code: 'answer-differs', severity: 'error', summary: message } as const;
      return { outcome: 'failed', status: answer.status, message, problem };
    }
  }
}

/** PATCHes the rule back to what was live, as it was spelled; false when that could not be done. */
export async function setBack(step: UpdateStep, session: Session): Promise<boolean> {
  const before = { ...toWire(step.live.rule), destination: step.live.destinationText };
  for (let attempt = 0; ; attempt++) {
    const answer = await session.write((signal) => session.context.api.updateRule(step.live.id, before, signal));
    const kind = kindOf(answer);
    if (kind === 'success') return true;
    if (kind === 'refused' || kind === 'broken' || !(await session.retry(attempt, 'gap'))) return false;
  }
}
