import type { Lane } from './gate.ts';
import { backoffMs, kindOf } from './retry.ts';
import type { Session } from './session.ts';
import { refused, type Settled, unknown } from './settled.ts';

/**
 * Deletes a rule. 404 is done: it is gone. After anything that leaves it open (lost, 5xx: the server answers an empty 500 to
 * one of two simultaneous deletes, observed: recordings/concurrency) the list decides before it is tried again.
 */
export async function deleteById(id: string, session: Session, lane: Lane): Promise<Settled> {
  const { api, clock } = session.context;
  const request = `DELETE /v0/rules/${id}`;
  let lostBefore = false;
  for (let attempt = 0; ; attempt++) {
    const answer = await session.write((signal) => api.deleteRule(id, signal));
    const kind = kindOf(answer);
    if (kind === 'success') return deleted(id, answer.status, session);
    if (kind === 'refused' && answer.status === 404) {
      const settled = deleted(id, 404, session);
      return lostBefore ? settled : { ...settled, byOther: true, message: 'it was gone already' };
    }
    if (kind === 'broken' || kind === 'refused') return refused(answer, request);
    if (kind === 'unauthorized' && lane === 'normal') return { ...refused(answer, request), unauthorized: true };
    if (kind === 'unauthorized') session.stop('unauthorized');
    if (kind === 'limited' && answer.kind === 'answer')
      session.gate.pause(answer.retryAfterMs ?? backoffMs(attempt, clock));
    if (answer.kind === 'lost' && answer.code === 'refused') await session.freshRules(lane);
    if (kind === 'uncertain') {
      lostBefore = true;
      const listed = await session.freshRules(lane);
      if (!listed.ok) return unknown(answer, request, listed.error);
      if (!listed.value.some((live) => live.id === id)) return deleted(id, answer.status, session);
    }
    if (!(await session.retry(attempt, lane))) return refused(answer, request);
  }
}

function deleted(id: string, status: number | null, session: Session): Settled {
  session.known.deleted(id);
  session.gate.stored();
  return { outcome: 'done', status };
}
