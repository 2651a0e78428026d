import type { OutcomeKind } from '../apply/outcome.ts';
import type { FindingCounts } from '../enforcement/report.ts';
import type { PassResult } from '../pass/pass.ts';
import { makeRequest } from '../plan/plan.ts';
import type { Clock } from '../ports.ts';
import { type Conditions, createConditions, setConditions } from './conditions.ts';
import { describeConditions, type PassEnding, type Verdict } from './pass-ending.ts';

/** One pass, for the status page and the log. */
export type PassView = ReturnType<typeof viewPass>;

/** What is known of the kernel's packet filter (docs/how-to/enforcement.md). Times are ms since 1970, durations ms. */
interface EnforcementView extends FindingCounts {
  readonly elements: number;
  /** The last revision that the kernel was seen to hold, and when it last was. */
  readonly enforcedRevision: string | null;
  readonly enforcedAt: number | null;
  /** From the last write of the last apply until the kernel held it. */
  readonly lagMs: number | null;
  /** At most 20. */
  readonly findings: readonly string[];
}

/** Everything that `/status` shows. Holds no secret by construction: no field values, no token, no URL with credentials. */
export interface Status {
  readonly version: string;
  readonly source: string;
  /** The server's address, without credentials; absent until the settings were read. */
  readonly server?: string;
  readonly startedAt: number;
  readonly conditions: Conditions;
  readonly revisions: {
    readonly observed: string | null;
    readonly attempted: string | null;
    readonly applied: string | null;
    readonly appliedAt: number | null;
    /** The one last begun to be written: another than the applied one is in effect in part, or waits to be confirmed. */
    readonly inForce: string | null;
    /** Those that could not be carried out here, or that nobody confirmed; null until the record was read. */
    readonly failed: readonly string[] | null;
    /** The one that was refused here, or not carried out, when it was tried last: it is tried again. */
    readonly stuck: string | null;
  };
  readonly lastSuccessAt: number | null;
  /** Live objects that others changed, as of the last pass. */
  readonly drift: number;
  /** Corrections that another writer keeps undoing. */
  readonly fights: number;
  readonly blockedDeletes: number;
  readonly liveRules: number | null;
  /** The plan at hand, without field values: what an operator needs to see what would be done, and nothing secret. */
  readonly plan: ReturnType<typeof viewPlan>;
  /** How many steps of the plan that is being written have ended; null: nothing is being written. */
  readonly progress: { readonly done: number; readonly total: number } | null;
  /** The newest first, at most 20. */
  readonly passes: readonly PassView[];
  /** Null: there is no controller, for want of settings. */
  readonly role: 'writer' | 'standby' | null;
  readonly holder: string | null;
  readonly suspended: boolean;
  /** When the window opens for which the plan at hand waits (ms since 1970); null: it waits for none. */
  readonly windowOpensAt: number | null;
  /** When the revision that waits to be confirmed is taken back (ms since 1970); null: none waits. */
  readonly confirmBy: number | null;
  /** When the next rule begins or ends (ms since 1970); null: none does. */
  readonly nextBoundaryAt: number | null;
  /** Rules that have ended, and are live all the same. */
  readonly heldEnds: number;
  /** How far the server's clock is ahead of this machine's, ms; null: unknown. */
  readonly serverAheadMs: number | null;
  /** The directory cannot be watched by events; changes are found by rescanning. */
  readonly degraded: boolean;
  /** What the kernel's packet filter holds; absent until somebody looked. */
  readonly enforcement?: EnforcementView;
  /** When the API token expires (ms since 1970); null: unknown. */
  readonly tokenExpiresAt: number | null;
}

/** The pass as the status shows it; times are ms since 1970, durations ms. */
export function viewPass(end: PassEnding, verdict: Verdict, clock: Clock) {
  const revision = end.content?.revision ?? null;
  const outcomes: Record<OutcomeKind, number> = { done: 0, failed: 0, skipped: 0, dropped: 0, unknown: 0 };
  for (const { outcome } of end.outcomes ?? []) outcomes[outcome] += 1;
  return {
    startedAt: end.started,
    durationMs: Math.round(clock.now() - end.from),
    triggers: [...end.triggers].sort(),
    revision,
    // Another revision, which is not in effect, and that `reason` and `message` are about.
    failedRevision: verdict.revision === revision ? undefined : verdict.revision,
    result: verdict.kind,
    reason: verdict.reason,
    message: verdict.message,
    steps: Math.max(end.result?.plan?.steps.length ?? 0, end.outcomes?.length ?? 0),
    outcomes,
  };
}

/** Changes, and steps, of a plan at most. */
const shown = 100;

/** The plan of a pass without values; null when it came to none, or when it is carried out: nothing of it is at hand any more. */
export function viewPlan({ plan, content, digest, apply }: PassResult) {
  if (plan === null || apply?.end === 'converged') return null;
  const changing = plan.changes.filter((change) => change.action !== 'keep');
  return {
    revision: content?.revision ?? '',
    // What `--approve` takes, when a guard refused the plan.
    digest: digest?.plan ?? null,
    summary: plan.summary,
    changes: changing.slice(0, shown).map(({ kind, name, action, reason, origin = null, fields }) => {
      return { kind, name, action, reason, origin, fields: Object.keys(fields) };
    }),
    steps: plan.steps.slice(0, shown).map(makeRequest),
    refusals: plan.refusals.map(({ code, summary, hint }) => ({ code, summary, hint })),
  };
}

/** Of a server on which no pass has looked: what differs there, and what waits for its time. */
export const nothingSeen = { drift: 0, fights: 0, blockedDeletes: 0, liveRules: null, plan: null };
export const nothingDue = { windowOpensAt: null, confirmBy: null, nextBoundaryAt: null, heldEnds: 0 };
export const nothingInForce = { applied: null, appliedAt: null, inForce: null };

/** The status before anything is known. */
export function createStatus(version: string, source: string, wallTime: number, server?: string): Status {
  return {
    version,
    source,
    ...(server === undefined ? {} : { server }),
    startedAt: wallTime,
    conditions: createConditions(wallTime),
    revisions: { observed: null, attempted: null, ...nothingInForce, failed: null, stuck: null },
    lastSuccessAt: null,
    ...nothingSeen,
    progress: null,
    passes: [],
    role: null,
    holder: null,
    suspended: false,
    ...nothingDue,
    serverAheadMs: null,
    degraded: false,
    tokenExpiresAt: null,
  };
}

/** The status of a controller that cannot start because of its settings. */
export function createStalledStatus(version: string, message: string, wallTime: number): Status {
  const status = createStatus(version, '', wallTime);
  const verdict = { kind: 'terminal', reason: 'BadSettings', message } as const;
  const updates = describeConditions(verdict, { revision: null, failures: 0, badSettings: message });
  return { ...status, conditions: setConditions(status.conditions, updates, wallTime) };
}
