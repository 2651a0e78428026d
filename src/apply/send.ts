import type { ApiAnswer, ApiResult, Clock, NoAnswer } from '../ports.ts';

/**
 * How an answer is treated, before what is special to a method:
 *
 * | answer                                         | kind         |
 * |------------------------------------------------|--------------|
 * | 2xx                                            | success      |
 * | 401                                            | unauthorized |
 * | 429, or 503 with Retry-After                   | limited      |
 * | none, and not sent; except by our own stop     | unsent       |
 * | none, but perhaps sent; 5xx                    | uncertain    |
 * | none, for a reason that waiting does not mend  | broken       |
 * | any other status                               | refused      |
 */
export type Judged =
  | { readonly kind: 'success' | 'unauthorized' | 'limited' | 'refused'; readonly answer: ApiAnswer }
  | { readonly kind: 'unsent' | 'broken'; readonly answer: NoAnswer }
  | { readonly kind: 'uncertain'; readonly answer: ApiResult };

const lasting = new Set(['tls', 'redirect', 'too-large', 'token', 'unknown-secret', 'aborted']);

function judge(answer: ApiResult): Judged {
  if (answer.kind === 'no-answer') {
    if (answer.sent === 'maybe') return { kind: 'uncertain', answer };
    return { kind: lasting.has(answer.code) ? 'broken' : 'unsent', answer };
  }
  const { status, retryAfterMs } = answer;
  if (status >= 200 && status < 300) return { kind: 'success', answer };
  if (status === 401) return { kind: 'unauthorized', answer };
  if (status === 429 || (status === 503 && retryAfterMs !== null)) return { kind: 'limited', answer };
  return { kind: status >= 500 ? 'uncertain' : 'refused', answer };
}

/** A request and what its sender decides itself. */
interface Exchange<T> {
  /** Asked right before each attempt, after any wait: why it is not sent; null: it is. */
  readonly check?: () => Promise<T | null> | T | null;
  readonly call: () => Promise<ApiResult>;
  /** How the request ended; null when that is open, and sending it again may help. */
  readonly end: (judged: Judged) => Promise<T | null> | T | null;
  /** Waits until the request may be sent again; false when it may not. */
  readonly wait: (judged: Judged, attempt: number) => Promise<boolean>;
  /** How it ended when no attempt is left. */
  readonly giveUp: (answer: ApiResult) => T;
}

/** Sends a request until its end is known or no attempt is left: the one loop behind every read and write. */
export async function send<T>({ check, call, end, wait, giveUp }: Exchange<T>): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    const unsent = check ? await check() : null;
    if (unsent !== null) return unsent;
    const judged = judge(await call());
    const ended = await end(judged);
    if (ended !== null) return ended;
    if (!(await wait(judged, attempt))) return giveUp(judged.answer);
  }
}

/** Whether the server refused the connection: it is down, or starts just now. */
export function isAway(answer: ApiResult): boolean {
  return answer.kind === 'no-answer' && answer.code === 'refused';
}

/** Exponential backoff with full jitter on its upper half: 125–250 ms, 250–500 ms, … at most `capMs`. */
export function computeBackoffMs(attempt: number, clock: Clock, capMs = 5000): number {
  const ceiling = Math.min(capMs, 250 * 2 ** Math.min(attempt, 16));
  return ceiling / 2 + (clock.random() * ceiling) / 2;
}
