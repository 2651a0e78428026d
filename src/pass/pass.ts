import type { ApplyContext } from '../apply/context.ts';
import type { ApplyReport } from '../apply/outcome.ts';
import type { ReadFailure } from '../apply/read.ts';
import type { Desired, DesiredContext } from '../desired/context.ts';
import type { ParseFiles } from '../desired/parse-files.ts';
import type { KernelState } from '../enforcement/report.ts';
import type { KnownUsers } from '../model/known-users.ts';
import type { Problem } from '../model/problem.ts';
import type { Result } from '../model/result.ts';
import type { DesiredState, LiveState } from '../model/state.ts';
import type { PlanDigest } from '../plan/digest.ts';
import type { PlanInput } from '../plan/input.ts';
import type { Plan } from '../plan/plan.ts';
import type { SourceContent } from '../ports.ts';
import type { BackOrder } from './go-back.ts';
import type { SaidOfRule } from './history.ts';

/** Everything one pass works with; the same for `--plan`, an apply and the controller. */
export interface PassDependencies
  extends Pick<ApplyContext, 'api' | 'clock' | 'logger' | 'journal' | 'limits' | 'onOutcome' | 'onReplan'>,
    Pick<PlanInput, 'base' | 'baseApplied' | 'options'> {
  readonly parse: ParseFiles;
  readonly desired: DesiredContext;
  /** The state before an apply stands in for what manifests ask for; absent: the content's. */
  readonly takesBack?: BackOrder;
  /** Of a part by time: rules that began wait, all or those that open traffic. What they give too is not taken away meanwhile. */
  readonly waiting?: 'all' | 'wider' | undefined;
  /** Of a part by time: what the newest revision asks for. Access that it leaves out does not begin. */
  readonly asked?: DesiredState | null | undefined;
  /** Plan for this time (ms since 1970) instead of now. */
  readonly at?: number;
  /** The last time at which what was in force was known to be right, ms since 1970: for where the clocks differ. */
  readonly agreedAt?: number;
  /** Of a sidecar: when what waits to be confirmed is taken back, ms since 1970; null: nothing waits. */
  readonly pendingUntil?: number | null;
  /** Asked when manifests name users by e-mail address; absent: the API lists them. */
  readonly users?: () => Promise<Result<KnownUsers, ReadFailure>>;
  /** Warnings of the manifests count as errors: the pass ends before the server is asked. */
  readonly strict?: boolean;
  /** The rules of the last apply, where a record of it says so; absent: those of the base, where that is known to be applied. */
  readonly appliedRules?: ReadonlyMap<string, SaidOfRule>;
  /** These manifests are in force, under the same settings: what has ended by them was live. */
  readonly isInForce?: boolean;
  /** They were applied, perhaps under other settings, also where there is no base. */
  readonly isApplied?: boolean;
  /** Digests of plans that were reviewed: guards refuse these no more. */
  readonly approvals?: readonly string[];
  readonly memory: PassMemory;
  /** Works on a part only (the controller's rules and Configuration fail independently); absent: on everything in scope. */
  readonly part?: PassPart | undefined;
  /** Aborting ends reading at once, and writing before the next step (open gaps are closed first). */
  readonly stop: AbortSignal;
  /** How the kernel's packet filter is looked at; absent: not at all. */
  readonly enforcement?: PassEnforcement;
}

/** How a pass looks at the kernel's packet filter (docs/how-to/enforcement.md). */
export interface PassEnforcement extends NonNullable<ApplyContext['enforcement']> {
  /** Replace a rule that the kernel does not hold. */
  readonly repair: boolean;
  /** How long to wait, in ms, until the kernel holds what is live after the pass; null: not at all. */
  readonly waitMs: number | null;
  /** False: a pass that wrote nothing does not wait. */
  readonly waitInSync?: boolean;
}

/** `managed`: what the manifests manage; no more is read. `ends`: only ended rules go; `boundaries`: those begun since `agreedAt` come. */
export type PassPart = 'rules' | 'configuration' | 'managed' | TimesPart;
export type TimesPart = 'ends' | 'revocations' | 'boundaries';

/** What an earlier pass knew. Nothing depends on it being there; `emptyMemory` is a first run. */
export interface PassMemory {
  /** Number of live rules then; null: no record. */
  readonly knownRules: number | null;
  /** The server was unreachable then: its packet filter may be rebuilding now. */
  readonly serverWasDown: boolean;
  /** Keys (`formatRuleKey`) of rules whose gap was open when the journal ended: created before anything else. */
  readonly openGaps: ReadonlySet<string>;
}

/** The memory of a first run. */
export const emptyMemory: PassMemory = { knownRules: null, serverWasDown: false, openGaps: new Set() };

/** Decides whether a plan that no guard refused is applied: shows it, asks, compares a digest. */
export type Approve = (plan: Plan, desired: Desired, digest: PlanDigest) => Promise<boolean>;

/**
 * Where a pass ended. `invalid`: the manifests have errors, or could not be read; `unreadable`: no live state (see `failure`);
 * `refused`: a guard (see `plan.refusals`); `in-sync`: nothing to write; `planned`: only a plan was asked for; `declined`: not
 * approved; `applied`: written (see `apply.end` for how that went).
 */
export type PassEnd = 'invalid' | 'unreadable' | 'refused' | 'in-sync' | 'planned' | 'declined' | 'applied';

/** All that a pass found and did, as far as it came. */
export interface PassResult {
  readonly end: PassEnd;
  readonly content: SourceContent | null;
  readonly desired: Desired | null;
  readonly live: LiveState | null;
  readonly plan: Plan | null;
  /** Identity of the plan; absent without one. */
  readonly digest?: PlanDigest;
  readonly apply: ApplyReport | null;
  /** What the kernel holds of it; absent when nobody looked, or not since the writes. */
  readonly kernel?: KernelState | undefined;
  /** How far the server's clock is ahead of ours, ms, where it says its time. */
  readonly serverAheadMs?: number | undefined;
  /** Why the live state could not be read; null unless `end` is `unreadable`. */
  readonly failure: ReadFailure | null;
  /** Of every stage, sorted, each once. */
  readonly problems: readonly Problem[];
}
