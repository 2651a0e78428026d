import { type ConfigurationField, providersTimeoutMs } from '../model/configuration.ts';
import type { Problem } from '../model/problem.ts';
import type { Step } from '../plan/plan.ts';
import type { Traffic } from '../policy/traffic.ts';

/** done; failed (answered, and not done); skipped (already so); dropped (never attempted); unknown (sent, answer lost). */
export type OutcomeKind = 'done' | 'failed' | 'skipped' | 'dropped' | 'unknown';

/** How one write ended. */
export interface Settled {
  readonly outcome: OutcomeKind;
  /** HTTP status of the last answer; null when there was none. */
  readonly status: number | null;
  /** Why its last request got no usable answer (the code of `NoAnswer`), or the server none from a provider (`provider`); else absent. */
  readonly noAnswer?: string;
  /** What went wrong and what to do, for a person. */
  readonly message?: string;
  /** The rule's id on the server after a create. */
  readonly liveId?: string;
  /** Of a step for the Configuration: the fields that were written, or may have been. */
  readonly fields?: readonly ConfigurationField[];
  /** A deleted rule was created again because its gap could not be closed. */
  readonly restored?: boolean;
  /** Another writer had deleted the rule before. */
  readonly byOther?: boolean;
  /** An attempt without an answer may be carried out yet, however the step ended. So may any `unknown`: with this, none is left. */
  readonly mayLand?: boolean;
  /** The server holds something the plan did not know of: worth planning again. */
  readonly surprise?: boolean;
  readonly problem?: Problem;
}

/** How one step ended. Every step of a plan has exactly one. */
export interface Outcome extends Settled {
  readonly step: Step;
}

/** Done, or already so. */
export function isSuccess({ outcome }: Settled): boolean {
  return outcome === 'done' || outcome === 'skipped';
}

/**
 * By how a request ended: whether the server may hold what it asked for, and when asking again may help (docs/explanation/applying.md).
 * `no answer`: the last attempt did not reach the server, or a provider gave that none; `null`: nothing was sent, for what others changed.
 */
const ends = [
  [/^(skipped|422)$/, false, 'never'],
  [/^(done|403)$/, true, 'never'], // a proxy gives 403, perhaps to the answer: Firezone 0.7 never does (observed: recordings/auth)
  [/^(no answer|401|429)$/, false, 'soon'],
  [/^(unknown|408|5..)$/, true, 'soon'],
  [/^(dropped|null)$/, false, 'replanned'],
  [/./, true, 'perhaps'], // another refusal, or a success that is not as asked
] as const;

/** The one judgement of how a request ended, for all that acts on it. */
export function judgeSettled({ outcome, status, noAnswer, byOther, mayLand = outcome === 'unknown' }: Settled) {
  const failed = noAnswer === undefined ? String(status) : 'no answer';
  const end = outcome === 'failed' ? failed : byOther ? 'skipped' : outcome;
  const [, mayBeDone = true, again = 'perhaps'] = ends.find(([one]) => one.test(end)) ?? [];
  return { mayBeDone: mayBeDone || mayLand, again, mayLand };
}

/** Until when a request of these without an answer may be carried out; 0: there is none. The server reads documents of providers before. */
export function findOpenUntil(outcomes: readonly Outcome[], now: number, requestTimeoutMs: number): number {
  const open = outcomes.filter((one) => judgeSettled(one).mayLand);
  const hasProviders = open.some(({ fields }) => fields?.includes('openid_connect_providers'));
  return open.length === 0 ? 0 : Math.ceil(now) + Math.max(requestTimeoutMs, hasProviders ? providersTimeoutMs : 0);
}

/** That time as it was written down: a clock that was set back since adds little. */
export function boundOpenUntil(openUntil: number, now: number, requestTimeoutMs: number): number {
  return Math.min(openUntil, Math.ceil(now) + Math.max(requestTimeoutMs, providersTimeoutMs));
}

/** Why an apply ended. `converged`: a fresh read gave an empty plan. */
export type ApplyEnd = 'converged' | 'not-converged' | 'stopped' | 'failed';

export interface ApplyReport {
  readonly end: ApplyEnd;
  readonly outcomes: readonly Outcome[];
  readonly problems: readonly Problem[];
  /** Traffic left open because a gap could not be closed; named first in every output. */
  readonly leftOpen: readonly Traffic[];
  /** Names of objects that did not converge. */
  readonly notConverged: readonly string[];
  /** Whether any write reached the server. */
  readonly wrote: boolean;
  /** ms from the first write sent to the last answer. */
  readonly durationMs: number;
  /** ms from now until the packet filter is expected to hold what was applied; null when not asynchronous. */
  readonly enforcedInMs: number | null;
}
