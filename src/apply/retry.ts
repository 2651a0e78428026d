import type { ApiResult, Clock } from '../ports.ts';

/**
 * How an answer is treated, before what is special to a method:
 *
 * | answer                                        | kind        |
 * |-----------------------------------------------|-------------|
 * | 2xx                                           | success     |
 * | 401                                           | unauthorized|
 * | 429, or 503 with Retry-After                  | limited     |
 * | lost before sending, except by our own stop   | unsent      |
 * | lost after sending, 5xx                       | uncertain   |
 * | lost for a reason that waiting does not mend  | broken      |
 * | any other status                              | refused     |
 */
export type AnswerKind = 'success' | 'unauthorized' | 'limited' | 'unsent' | 'uncertain' | 'broken' | 'refused';

const lasting = new Set(['tls', 'redirect', 'too-large', 'token', 'unknown-secret', 'aborted']);

/** Classifies one answer; see the table. */
export function kindOf(result: ApiResult): AnswerKind {
  if (result.kind === 'lost') {
    if (result.sent === 'no') return lasting.has(result.code) ? 'broken' : 'unsent';
    return 'uncertain';
  }
  const { status, retryAfterMs } = result;
  if (status >= 200 && status < 300) return 'success';
  if (status === 401) return 'unauthorized';
  if (status === 429 || (status === 503 && retryAfterMs !== null)) return 'limited';
  return status >= 500 ? 'uncertain' : 'refused';
}

/** Exponential backoff with full jitter on its upper half: 125–250 ms, 250–500 ms, … at most `capMs`. */
export function backoffMs(attempt: number, clock: Clock, capMs = 5000): number {
  const ceiling = Math.min(capMs, 250 * 2 ** Math.min(attempt, 16));
  return ceiling / 2 + (clock.random() * ceiling) / 2;
}
