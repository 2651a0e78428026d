import { decodeLiveRule } from '../live/live-rules.ts';
import { makeError } from '../model/problem.ts';
import { ok, type Result } from '../model/result.ts';
import { compareRules, formatRuleKey, type Rule, toWire, type WireRule, wireFields } from '../model/rule.ts';
import type { UpdateStep } from '../plan/plan.ts';
import type { ApiAnswer, ApiResult } from '../ports.ts';
import { isOverlap } from './answer-text.ts';
import { isSuccess, type Settled } from './outcome.ts';
import { computeBackoffMs } from './send.ts';
import type { Session } from './session.ts';
import { sendWrite, settleFailed, settleUnknown, type Write, type WriteOrder } from './write.ts';

const createRequest = 'POST /v0/rules';

type Checks = Pick<Write, 'check'>;

/** Creates a rule exactly once: what a POST without an answer left is found by its value. `spelled`: the destination as it was stored. */
export function createRule(rule: Rule, order: WriteOrder, checks: Checks = {}, spelled = toWire(rule).destination) {
  const { session } = order;
  return sendWrite(order, {
    method: 'POST',
    path: '/v0/rules',
    rule: formatRuleKey(rule),
    ...checks,
    call: (signal) => session.context.api.createRule({ ...toWire(rule), destination: spelled }, signal),
    accept: (answer) =>
      acceptRule({ rule, request: createRequest }, answer, session, async ({ id, isSame }) => {
        session.known.created(id);
        if (isSame) noteStored(session);
        if (isSame) return '';
        const undone = await deleteRule(id, rule, { ...order, priority: 'gap' });
        const failed = `could not be deleted again (${undone.message ?? ''})`;
        return `it ${undone.outcome === 'done' ? 'was deleted again' : failed}, rule ${id}`;
      }),
    refuse: (answer, sentBefore) => (isOverlap(answer) ? settleOverlap(rule, answer, sentBefore, order) : null),
    find: async ({ status }, sentAt) => {
      const landed = await findLanded(rule, sentAt, order);
      if (!landed.ok || landed.value === null) return landed.ok ? ok(null) : landed;
      noteStored(session);
      return ok({ outcome: 'done', status, liveId: landed.value.id });
    },
  });
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
async function findLanded(rule: Rule, sentAt: number, { session, priority }: WriteOrder) {
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
async function settleOverlap(rule: Rule, answer: ApiAnswer, sentBefore: boolean, { session, priority }: WriteOrder) {
  const listed = await session.freshRules(priority);
  if (!listed.ok && sentBefore) return settleUnknown(answer, createRequest, listed.error);
  const live = listed.ok ? session.known.claim(formatRuleKey(rule), listed.value) : null;
  if (live === null) {
    session.collisionsSeen = true;
    return { ...settleFailed(answer, createRequest), surprise: true };
  }
  const { status } = answer;
  if (sentBefore) return { outcome: 'done', status, liveId: live.id } satisfies Settled;
  const message = 'another writer made the same rule';
  return { outcome: 'skipped', status, liveId: live.id, message } satisfies Settled;
}

/** Deletes a rule. 404 is done; after an empty 500 (observed: recordings/concurrency) the list decides. */
export function deleteRule(id: string, rule: Rule, order: WriteOrder): Promise<Settled> {
  const { session, priority } = order;
  const settle = (status: number | null): Settled => {
    session.known.deleted(id);
    session.throttle.stored('delete');
    return { outcome: 'done', status };
  };
  return sendWrite(order, {
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
      const listed = await session.freshRules(priority);
      if (!listed.ok) return listed;
      return ok(listed.value.some((live) => live.id === id) ? null : settle(status));
    },
  });
}

/** A PATCH: what it sends, and the rule that it asks for. */
interface Patch extends Checks {
  readonly id: string;
  readonly fields: Partial<WireRule>;
  readonly rule: Rule;
}

/** PATCHes a rule with the fields that change. */
export function updateRule(step: UpdateStep, order: WriteOrder, checks: Checks): Promise<Settled> {
  const { live, rule } = step;
  // A destination that only differs in host bits is left as it is stored.
  const differing = wireFields.filter(({ read }) => read(rule) !== read(live.rule));
  const fields: Patch['fields'] = Object.fromEntries(differing.map(({ name, read }) => [name, read(rule)]));
  return patchRule({ id: live.id, fields, rule, ...checks }, order, async () => {
    const back = await setBack(step, order);
    return back ? 'it was set back' : 'it could not be set back';
  });
}

/** PATCHes the rule back to what was live, as it was spelled; false when that could not be done. */
export async function setBack({ live }: UpdateStep, order: WriteOrder): Promise<boolean> {
  const fields = { ...toWire(live.rule), destination: live.destinationText };
  const patch = { id: live.id, fields, rule: live.rule };
  return isSuccess(await patchRule(patch, { ...order, priority: 'gap' }, async () => 'it was left so'));
}

/** A rule that is gone, or an overlap that the plan did not know of, is a surprise: the plan is made again. */
function patchRule({ id, fields, rule, ...checks }: Patch, order: WriteOrder, undo: () => Promise<string>) {
  const { session, priority } = order;
  const request = `PATCH /v0/rules/${id}`;
  const done = (status: number | null): Settled => ({ outcome: 'done', status, liveId: id });
  /** How it ended by what is live; null: the rule is there, and not as it was asked for. */
  const look = async (answer: ApiResult): Promise<Result<Settled | null, string>> => {
    const listed = await session.freshRules(priority);
    if (!listed.ok) return listed;
    const live = listed.value.find((one) => one.id === id);
    if (live === undefined) return ok({ ...settleFailed(answer, request), surprise: true, byOther: true });
    return ok(formatRuleKey(live.rule) === formatRuleKey(rule) ? done(answer.status) : null);
  };
  return sendWrite(order, {
    method: 'PATCH',
    path: `/v0/rules/${id}`,
    rule: formatRuleKey(rule),
    ...checks,
    call: (signal) => session.context.api.updateRule(id, fields, signal),
    accept: (answer) => acceptRule({ rule, request }, answer, session, async ({ isSame }) => (isSame ? '' : undo())),
    refuse: async (answer) => {
      const surprise = { ...settleFailed(answer, request), surprise: true };
      if (answer.status === 404) return { ...surprise, byOther: true };
      if (!isOverlap(answer)) return null;
      const seen = await look(answer);
      if (!seen.ok) return settleUnknown(answer, request, seen.error);
      session.collisionsSeen ||= seen.value === null;
      return seen.value ?? surprise;
    },
    find: look,
  });
}

/** Why a rule with ports is not sent to a server that dropped the ports of another. */
export const noPortsMessage = 'not sent: the server drops the ports of rules';

/**
 * What a success answer says about the rule that was sent, by its canonical form: the server echoes `/32` and upper case. Null when it
 * cannot be read. `heard` is told the rule's id; where it was stored differently it undoes the write, and says what became of that.
 * A server without port rules takes the rest of one silently (observed: recordings/port_rules_unsupported): no more are sent.
 */
async function acceptRule(
  { rule, request }: { readonly rule: Rule; readonly request: string },
  { body, status }: ApiAnswer,
  session: Session,
  heard: (stored: { readonly id: string; readonly isSame: boolean }) => Promise<string>,
): Promise<Settled | null> {
  const decoded = decodeLiveRule(body);
  if (!decoded.ok) return null;
  const { id } = decoded.value;
  const isSame = compareRules(decoded.value.rule, rule) === 0;
  const undo = await heard({ id, isSame });
  if (isSame) return { outcome: 'done', status, liveId: id };
  const [sent, stored] = [formatRuleKey(rule), formatRuleKey(decoded.value.rule)];
  if (rule.ports === null || stored !== formatRuleKey({ ...rule, ports: null })) {
    const message = `${request}: the server stored \`${stored}\` instead of \`${sent}\`; ${undo}`;
    const problem = { code: 'answer-differs', severity: 'error', summary: message } as const;
    return { outcome: 'failed', status, message, problem };
  }
  session.noPorts = true;
  const message = `the server took \`${sent}\` without its ports, for all ports; ${undo}`;
  const summary = `The server does not support port rules: ${message}.`;
  const hint = 'Port rules need a kernel newer than 5.6.8 on the Firezone host; until then write rules without ports.';
  return { outcome: 'failed', status, message, problem: makeError('ports-dropped', summary, hint) };
}
