import type { Problem } from '../model/problem.ts';
import type { ApiResult } from '../ports.ts';
import { textOf } from './answer-text.ts';
import type { OutcomeKind } from './outcome.ts';

/** How one step ended, before it becomes an `Outcome`. */
export interface Settled {
  readonly outcome: OutcomeKind;
  readonly status: number | null;
  readonly message?: string;
  readonly liveId?: string;
  /** A deleted rule was created again because its gap could not be closed. */
  readonly restored?: boolean;
  /** Another writer had deleted the rule before. */
  readonly byOther?: boolean;
  /** The server holds something the plan did not know of: worth planning again. */
  readonly surprise?: boolean;
  /** The token was refused: no new step may start. */
  readonly unauthorized?: boolean;
  readonly problem?: Problem;
}

/** Done, or already so. */
export function settledWell(outcome: OutcomeKind): boolean {
  return outcome === 'done' || outcome === 'skipped';
}

/** A step that was answered and not done. */
export function refused(answer: ApiResult, request: string): Settled {
  return { outcome: 'failed', status: statusOf(answer), message: textOf(answer, request) };
}

/** A step that was sent and whose fate could not be found out. */
export function unknown(answer: ApiResult, request: string, why?: string): Settled {
  const because =
    why === undefined ? '' : `; whether it was carried out is not known, for reading the rules failed: ${why}`;
  return { outcome: 'unknown', status: statusOf(answer), message: `${textOf(answer, request)}${because}` };
}

/** Status of the last answer; null when there was none. */
function statusOf(answer: ApiResult): number | null {
  return answer.status;
}
