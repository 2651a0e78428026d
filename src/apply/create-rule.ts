import { isObject } from '../live/live-rules.ts';
import { type LiveRule, type Rule, ruleKey, toWire, type WireRule } from '../model/rule.ts';
import type { ApiAnswer, ApiResult } from '../ports.ts';
import { fieldMessages } from './answer-text.ts';
import { checkAnswer } from './compare.ts';
import { deleteById } from './delete-rule.ts';
import type { Lane } from './gate.ts';
import { portsDropped } from './port-rules.ts';
import { backoffMs, kindOf } from './retry.ts';
import type { Session } from './session.ts';
import { refused, type Settled, unknown } from './settled.ts';

/** A rule to create: what is meant and how it is spelled (a restored rule keeps its stored spelling). */
export interface Creation {
  readonly rule: Rule;
  readonly wire: WireRule;
}

const request = 'POST /v0/rules';

/** The creation of a canonical rule. */
export function creationOf(rule: Rule): Creation {
  return { rule, wire: toWire(rule) };
}

/**
 * Creates a rule exactly once. An answer that says nothing about the fate of the request (lost, 5xx) is never followed by
 * a second POST before the list was read: what landed there is found by canonical value among ids not known before.
 */
export async function createRule(creation: Creation, session: Session, lane: Lane): Promise<Settled> {
  const { api, clock } = session.context;
  let lostBefore = false;
  for (let attempt = 0; ; attempt++) {
    const sentAt = clock.now();
    const answer = await session.write((signal) => api.createRule(creation.wire, signal));
    const kind = kindOf(answer);
    if (kind === 'success' && answer.kind === 'answer') {
      const checked = await checkCreated(creation, answer, session);
      if (checked !== null) return checked;
    }
    if (kind === 'broken') return refused(answer, request);
    if (kind === 'refused') {
      return isOverlap(answer)
        ? await afterOverlap(creation, answer, session, { lostBefore, lane })
        : refused(answer, request);
    }
    if (kind === 'unauthorized' && lane === 'normal') return { ...refused(answer, request), unauthorized: true };
    if (kind === 'unauthorized') session.stop('unauthorized');
    const limited = kind === 'limited' && answer.kind === 'answer';
    if (limited) session.gate.pause(answer.retryAfterMs ?? backoffMs(attempt, clock));
    if (answer.kind === 'lost' && answer.code === 'refused') await session.freshRules(lane); // waits until it is back
    if (kind === 'success' || kind === 'uncertain' || (limited && answer.status !== 429)) {
      lostBefore = true;
      const landed = await findLanded(creation, session, { at: sentAt, lane });
      if (landed.kind === 'landed') {
        stored(session);
        return { outcome: 'done', status: answer.status, liveId: landed.live.id };
      }
      if (landed.kind === 'unreadable') return unknown(answer, request, landed.why);
    }
    if (!(await session.retry(attempt, lane))) return refused(answer, request);
  }
}

/** A rule that overlaps what one modified in place left in the filter makes it crash and rebuild (observed: recordings/packet_filter_crash). */
function stored({ gate, known }: Session): void {
  if (known.anyModified()) gate.stored(known.count());
  else gate.stored();
}

/** Whether the server refused the rule because it holds one that overlaps (observed: recordings/rule_overlap). */
export function isOverlap(answer: ApiResult): boolean {
  if (answer.kind !== 'answer' || (answer.status !== 422 && answer.status !== 409) || !isObject(answer.body))
    return false;
  return [...fieldMessages(answer.body).values()].some((texts) => texts.some((text) => /overlap/i.test(text)));
}

type Landing =
  | { readonly kind: 'landed'; readonly live: LiveRule }
  | { readonly kind: 'absent' }
  | { readonly kind: 'unreadable'; readonly why: string };

/**
 * Looks for the rule of a lost POST. Where the server refuses collisions one read is enough: should the request arrive late,
 * either it or its repetition is refused. Elsewhere the list is read until the request's deadline has passed.
 */
async function findLanded(
  creation: Creation,
  session: Session,
  sent: { readonly at: number; readonly lane: Lane },
): Promise<Landing> {
  const { clock, profile, limits } = session.context;
  const once = profile.refusesCollisions || session.collisionsSeen;
  for (let attempt = 0; ; attempt++) {
    const late = clock.now() >= sent.at + limits.requestTimeoutMs;
    const listed = await session.freshRules(sent.lane);
    if (!listed.ok) return { kind: 'unreadable', why: listed.error };
    const live = session.known.claim(ruleKey(creation.rule), listed.value);
    if (live !== null) return { kind: 'landed', live };
    if (once || late || session.hard.aborted) return { kind: 'absent' };
    const leftMs = sent.at + limits.requestTimeoutMs - clock.now();
    await clock.sleep(Math.min(leftMs, backoffMs(attempt, clock, 2000)), session.hard);
  }
}

/** After a lost answer an overlap may be the rule itself; else another writer may have made the same rule. */
async function afterOverlap(
  creation: Creation,
  answer: ApiResult,
  session: Session,
  { lostBefore, lane }: { readonly lostBefore: boolean; readonly lane: Lane },
): Promise<Settled> {
  const listed = await session.freshRules(lane);
  if (!listed.ok && lostBefore) return unknown(answer, request, listed.error);
  const live = listed.ok ? session.known.claim(ruleKey(creation.rule), listed.value) : null;
  if (live !== null && lostBefore) return { outcome: 'done', status: answer.status, liveId: live.id };
  if (live !== null) {
    return {
      outcome: 'skipped',
      status: answer.status,
      liveId: live.id,
      message: 'another writer made the same rule',
    };
  }
  session.collisionsSeen = true;
  return { ...refused(answer, request), surprise: true };
}

/** Null when the answer does not show which rule it is about: then the list decides. */
async function checkCreated(creation: Creation, answer: ApiAnswer, session: Session): Promise<Settled | null> {
  const check = checkAnswer(creation.rule, answer.body);
  switch (check.kind) {
    case 'unreadable':
      return null;
    case 'same':
      session.known.created(check.id);
      stored(session);
      return { outcome: 'done', status: answer.status, liveId: check.id };
    case 'ports-dropped':
    case 'differs': {
      session.known.created(check.id);
      const undone = await deleteById(check.id, session, 'gap');
      const undo =
        undone.outcome === 'done' ? 'it was deleted again' : `it could not be deleted again (${undone.message ?? ''})`;
      if (check.kind === 'ports-dropped')
        return portsDropped(creation.rule, answer.status, `${undo}, rule ${check.id}`, session);
      const message = `${request}: the server stored \`${check.stored}\` instead of \`${ruleKey(creation.rule)}\`; ${undo}`;
      const problem = { code: 'answer-differs', severity: 'error', summary: message } as const;
      return { outcome: 'failed', status: answer.status, message, problem };
    }
  }
}
