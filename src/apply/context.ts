import type { Enforcement } from '../enforcement/report.ts';
import type { Problem } from '../model/problem.ts';
import type { Profile } from '../model/profile.ts';
import type { Result } from '../model/result.ts';
import type { DesiredRule } from '../model/rule.ts';
import type { Plan } from '../plan/plan.ts';
import type { Clock, Journal, LiveApi, Logger } from '../ports.ts';
import type { Outcome } from './outcome.ts';
import type { ReadFailure } from './read.ts';

/** Limits of an apply; all times in ms. */
export interface ApplyLimits {
  /** Requests at once. Default 8. */
  readonly concurrency: number;
  /** Writes a second; null: not paced. */
  readonly pace: number | null;
  /** Deadline of one request. Default 15,000. */
  readonly requestTimeoutMs: number;
  /** Deadline of the whole apply; open gaps are still closed (at most 10 s more). Default 600,000. */
  readonly totalTimeoutMs: number;
  /** Attempts for what is safe to repeat. Default 5. */
  readonly attempts: number;
  /** Plans that one apply may run when a plan met something it did not know of. Default 3. */
  readonly replans: number;
  /** A person approved the plan: a later one of the same apply may repeat its steps, and do nothing else. */
  readonly onlyApproved?: boolean;
}

/** The defaults of the command line. */
export const defaultApplyLimits: ApplyLimits = {
  concurrency: 8,
  pace: null,
  requestTimeoutMs: 15_000,
  totalTimeoutMs: 600_000,
  attempts: 5,
  replans: 3,
};

export interface ApplyContext {
  readonly api: LiveApi;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly journal: Journal | null;
  readonly profile: Profile;
  readonly limits: ApplyLimits;
  /** Aborting stops before the next step; open gaps are closed first. */
  readonly stop: AbortSignal;
  /** Reads the live state and plans again with the same input; used to verify and after surprises. */
  readonly replan: (request: {
    /** The plan that was carried out, as far as it could be. */
    readonly plan: Plan;
    readonly signal: AbortSignal;
    /** The server turned out to refuse collisions, whatever the profile says. */
    readonly refusesCollisions: boolean;
    /** Rules that the server should list now: a list that is suddenly much shorter is read twice. */
    readonly knownRules: number;
  }) => Promise<Result<Plan, ReadFailure>>;
  /** Told each later plan before its first write, and what became of the steps before it; gives what keeps it from being written. */
  readonly onReplan?: (plan: Plan, outcomes: readonly Outcome[]) => Promise<readonly Problem[]>;
  /** Whether a rule ended while others were written; absent: none does. */
  readonly isOver?: (rule: DesiredRule) => boolean;
  /** The operator allows a Configuration that leaves no way to sign in. */
  readonly allowLockout: boolean;
  /** An apply is taken back: what lets people sign in again goes first. */
  readonly goesBack?: boolean | undefined;
  /** The server was seen down before this apply: writes first wait until its filter is expected to be rebuilt. */
  readonly afterOutage: boolean;
  /** Keys (`formatRuleKey`) of rules whose gap an earlier run left open: created before anything else. */
  readonly closeFirst: ReadonlySet<string>;
  /** Looks at the kernel's packet filter, so that a rebuild need not be waited for longer than it takes; absent: nobody can. */
  readonly enforcement?: {
    readonly kernel: Enforcement;
    /** What the looks of earlier passes taught: how long the filter took for what its model gives it a second for. */
    readonly learnt?: { slowness: number };
  };
  /** Called as each step ends, for progress. */
  readonly onOutcome?: (outcome: Outcome) => void;
}
