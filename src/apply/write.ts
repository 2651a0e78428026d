import type { Result } from '../model/result.ts';
import type { ApiAnswer, ApiResult, JournalEntry } from '../ports.ts';
import { describeAnswer } from './answer-text.ts';
import { isSuccess, type Settled } from './outcome.ts';
import { computeBackoffMs, isAway, send } from './send.ts';
import type { Session } from './session.ts';
import type { Priority } from './throttle.ts';

/** A write that is known not to be done. */
export function settleFailed(answer: ApiResult, request: string): Settled {
  const noAnswer = answer.kind === 'no-answer' ? { noAnswer: answer.code } : {};
  return { outcome: 'failed', status: answer.status, ...noAnswer, message: describeAnswer(answer, request) };
}

/** A write that was sent, and reading back whether it was carried out failed too. */
export function settleUnknown(answer: ApiResult, request: string, why: string): Settled {
  const { message, ...settled } = settleFailed(answer, request);
  return { ...settled, outcome: 'unknown', message: `${message}; whether it was carried out is not known: ${why}` };
}

/** The step that a write belongs to, and the apply. */
export interface WriteOrder {
  readonly session: Session;
  readonly priority: Priority;
  /** What the journal says beside the request. */
  readonly note: Pick<JournalEntry, 'step' | 'name' | 'place' | 'gap' | 'owes'>;
}

/** A write, and what it decides itself; all else about sending is the same for all (`sendWrite`). */
export interface Write {
  readonly method: 'POST' | 'PATCH' | 'DELETE';
  readonly path: string;
  /** Key (`formatRuleKey`) of its rule, for the journal. */
  readonly rule?: string;
  /** Why it is not sent (again); null: it is. Asked right before each attempt: others may have changed what it rests on. */
  readonly check?: (sentBefore: boolean) => Promise<Settled | null> | Settled | null;
  readonly call: (signal: AbortSignal) => Promise<ApiResult>;
  /** What a success shows; null where it does not show what was done, so that `find` decides. */
  readonly accept: (answer: ApiAnswer) => Promise<Settled | null> | Settled | null;
  /** What a refusal means; null: the write failed. `sentBefore`: an earlier attempt had no clear answer. */
  readonly refuse?: (answer: ApiAnswer, sentBefore: boolean) => Promise<Settled | null> | Settled | null;
  /** Reads whether a write without a clear answer was carried out; null: it was not, so it may be sent again. */
  readonly find: (answer: ApiResult, sentAt: number) => Promise<Result<Settled | null, string>>;
}

/**
 * Carries a write out, to an end that is known or reported as unknown. It keeps the journal, repeats with backoff, makes all
 * writes wait as long as the server asks, waits for a server that is away, and stops the apply when the token is refused;
 * a write that closes a gap is tried on until the bound of the stop. After an answer that leaves open what was done (none,
 * 5xx, a 503 of a proxy) it is never repeated before `find` has looked.
 */
export async function sendWrite(order: WriteOrder, write: Write): Promise<Settled> {
  const { session, note } = order;
  const { method, path, rule } = write;
  const { owes, ...where } = note;
  const entry = { ...where, method, path, ...(rule === undefined ? {} : { rule }) };
  const recorded = session.record({ event: 'step-started', ...entry, ...(owes === undefined ? {} : { owes }) });
  // A killed apply must find which gap it left open; of any other write the server itself tells what became of it.
  if (note.gap !== undefined) await recorded;
  const settled = await settle(write, order);
  void session.record({ event: 'step-ended', ...entry, outcome: settled.outcome, status: settled.status });
  return settled;
}

async function settle(write: Write, { session, priority }: WriteOrder): Promise<Settled> {
  const { clock } = session.context;
  const request = `${write.method} ${write.path}`;
  let sentAt = 0;
  let [sentBefore, isAnswered] = [false, false];
  /** Attempts without a clear answer that were not known to be over then: a server that answers 500 itself is done with it. */
  let open = 0;
  const settled = await send<Settled>({
    check: async () => {
      const unsent = (await write.check?.(sentBefore)) ?? null;
      return sentBefore && unsent && unsent.outcome !== 'done' ? { ...unsent, outcome: 'unknown' } : unsent;
    },
    call: async () => {
      sentAt = clock.now();
      session.firstWriteAt ??= sentAt;
      session.throttle.sent();
      const answer = await write.call(session.hard);
      session.lastAnswerAt = clock.now();
      if (answer.kind === 'no-answer' ? answer.sent === 'maybe' : answer.status < 300) session.wrote = true;
      return answer;
    },
    end: async (judged) => {
      const { kind, answer } = judged;
      if (kind === 'success') {
        const accepted = await write.accept(judged.answer);
        isAnswered = accepted !== null;
        if (accepted !== null) return accepted;
      }
      if (kind === 'refused') return (await write.refuse?.(judged.answer, sentBefore)) ?? settleFailed(answer, request);
      if (kind === 'unauthorized') {
        session.stop('unauthorized');
        return priority === 'normal' ? settleFailed(answer, request) : null;
      }
      // A 503 may be a proxy's, after the server did its work.
      if (['unsent', 'broken'].includes(kind) || answer.status === 429) return null;
      const found = await write.find(answer, sentAt);
      sentBefore = true;
      if (answer.status !== 500) open++;
      session.wrote ||= !found.ok || found.value?.outcome === 'done';
      return found.ok ? found.value : settleUnknown(answer, request, found.error);
    },
    wait: async ({ kind, answer }, attempt) => {
      if (kind === 'limited') session.throttle.pause(answer.retryAfterMs ?? computeBackoffMs(attempt, clock));
      if (isAway(answer)) await session.freshRules(priority);
      return kind !== 'broken' && session.retry(attempt, priority);
    },
    giveUp: (answer) => settleFailed(answer, request),
  });
  const { outcome, status, message } = settled;
  // One of them was seen carried out. What is gone is changed by no request that comes late.
  if (isSuccess(settled) && !isAnswered && status !== 500) open--;
  const isGone = settled.byOther || (write.method === 'DELETE' && isSuccess(settled));
  if (open < 1 || isGone || outcome === 'unknown') return settled;
  const why = `${message}; an attempt that had no answer may be carried out yet`;
  return { ...settled, ...(outcome === 'failed' && { outcome: 'unknown', message: why }), mayLand: true };
}
