import type { ConfigurationField } from '../model/configuration.ts';
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
  /** Why its last request got no usable answer (the code of `NoAnswer`); absent where it got one, or there was none. */
  readonly noAnswer?: string;
  /** What went wrong and what to do, for a person. */
  readonly message?: string;
  /** The rule's id on the server after a create. */
  readonly liveId?: string;
  /** Fields of the Configuration that were written, or may have been, where those are not all of the step's. */
  readonly fields?: readonly ConfigurationField[];
  /** A deleted rule was created again because its gap could not be closed. */
  readonly restored?: boolean;
  /** Another writer had deleted the rule before. */
  readonly byOther?: boolean;
  /** An attempt without an answer was not seen carried out when none was left, and may be yet. */
  readonly mayLand?: boolean;
  /** The server could not read the document of an identity provider, which may answer it later. */
  readonly atProvider?: boolean;
  /** It was not sent, and no earlier attempt can have been carried out. */
  readonly unsent?: boolean;
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
