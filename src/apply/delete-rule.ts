import { ok } from '../model/result.ts';
import { formatRuleKey, type Rule } from '../model/rule.ts';
import type { Session } from './session.ts';
import { type Settled, sendWrite, type WriteOrder } from './write.ts';

/** Deletes a rule. 404 is done; after an empty 500 (observed: recordings/concurrency) the list decides. */
export function deleteRule(id: string, rule: Rule, session: Session, order: WriteOrder): Promise<Settled> {
  const settle = (status: number | null): Settled => {
    session.known.deleted(id);
    session.throttle.stored('delete');
    return { outcome: 'done', status };
  };
  return sendWrite(
    {
      method: 'DELETE',
      path: `/v0/rules/${id}`,
      rule: formatRuleKey(rule),
      call: (signal) => session.context.api.deleteRule(id, signal),
      accept: ({ status }) => settle(status),
      refuse: ({ status }, sentBefore) => {
        if (status !== 404) return null;
        return sentBefore ? settle(404) : { ...settle(404), byOther: true, message: 'it was gone already' };
      },
      find: async ({ status }) => {
        const listed = await session.freshRules(order.priority);
        if (!listed.ok) return listed;
        return ok(listed.value.some((live) => live.id === id) ? null : settle(status));
      },
    },
    session,
    order,
  );
}
