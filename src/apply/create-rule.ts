import { ok, type Result } from '../model/result.ts';
import { formatRuleKey, type LiveRule, type Rule, type WireRule } from '../model/rule.ts';
import type { ApiAnswer } from '../ports.ts';
import { isOverlap } from './answer-text.ts';
import { checkAnswer, settleDiffering } from './check-answer.ts';
import { deleteRule } from './delete-rule.ts';
import { computeBackoffMs } from './send.ts';
import type { Session } from './session.ts';
import type { Priority } from './throttle.ts';
import { type Settled, sendWrite, settleFailed, settleUnknown, type WriteOrder } from './write.ts';

/** A rule to create: what is meant and how it is spelled (a restored rule keeps its stored spelling). */
interface Creation {
  readonly rule: Rule;
  readonly wire: WireRule;
}

const request = 'POST /v0/rules';

/** Creates a rule exactly once: what a POST without an answer left is found by canonical value among ids not known before. */
export function createRule({ rule, wire }: Creation, session: Session, order: WriteOrder): Promise<Settled> {
  return sendWrite(
    {
      method: 'POST',
      path: '/v0/rules',
      rule: formatRuleKey(rule),
      call: (signal) => session.context.api.createRule(wire, signal),
      accept: (answer) => acceptCreated(rule, answer, session, order),
      refuse: (answer, sentBefore) =>
        isOverlap(answer) ? settleOverlap(rule, answer, sentBefore, session, order.priority) : null,
      find: async ({ status }, sentAt) => {
        const landed = await findLanded(rule, sentAt, session, order.priority);
        if (!landed.ok || landed.value === null) return landed.ok ? ok(null) : landed;
        noteStored(session);
        return ok({ outcome: 'done', status, liveId: landed.value.id });
      },
    },
    session,
    order,
  );
}

/** The filter crashes at a rule over what one modified in place left, and rebuilds (observed: recordings/packet_filter_crash). */
function noteStored({ throttle, known }: Session): void {
  throttle.stored('insert');
  if (known.anyModified()) throttle.mayCrash(known.count());
}

/**
 * Looks for the rule of a POST without an answer. Where the server refuses collisions one read is enough: should the request
 * arrive late, either it or its repetition is refused. Elsewhere the list is read until the request's deadline has passed.
 */
async function findLanded(
  rule: Rule,
  sentAt: number,
  session: Session,
  priority: Priority,
): Promise<Result<LiveRule | null, string>> {
  const { clock, limits } = session.context;
  const deadline = sentAt + limits.requestTimeoutMs;
  for (let attempt = 0; ; attempt++) {
    const late = clock.now() >= deadline;
    const listed = await session.freshRules(priority);
    if (!listed.ok) return listed;
    const live = session.known.claim(formatRuleKey(rule), listed.value);
    if (live !== null || session.refusesCollisions() || late || session.hard.aborted) return ok(live);
    await clock.sleep(Math.min(deadline - clock.now(), computeBackoffMs(attempt, clock, 2000)), session.hard);
  }
}

/** An overlap may be the rule of an earlier attempt; or another writer may have made the same rule. */
async function settleOverlap(
  rule: Rule,
  answer: ApiAnswer,
  sentBefore: boolean,
  session: Session,
  priority: Priority,
): Promise<Settled> {
  const listed = await session.freshRules(priority);
  if (!listed.ok && sentBefore) return settleUnknown(answer, request, listed.error);
  const live = listed.ok ? session.known.claim(formatRuleKey(rule), listed.value) : null;
  if (live === null) {
    session.collisionsSeen = true;
    return { ...settleFailed(answer, request), surprise: true };
  }
  const { status } = answer;
  if (sentBefore) return { outcome: 'done', status, liveId: live.id };
  return { outcome: 'skipped', status, liveId: live.id, message: 'another writer made the same rule' };
}

/** Null when the answer does not show which rule it is about: then the list decides. */
async function acceptCreated(
  rule: Rule,
  { body, status }: ApiAnswer,
  session: Session,
  order: WriteOrder,
): Promise<Settled | null> {
  const check = checkAnswer(rule, body);
  if (check.kind === 'unreadable') return null;
  session.known.created(check.id);
  if (check.kind === 'same') {
    noteStored(session);
    return { outcome: 'done', status, liveId: check.id };
  }
  const undone = await deleteRule(check.id, rule, session, { ...order, priority: 'gap' });
  const done = undone.outcome === 'done';
  const undo = done ? 'it was deleted again' : `it could not be deleted again (${undone.message ?? ''})`;
  return settleDiffering(check, { rule, request, status, undo: `${undo}, rule ${check.id}` }, session);
}
