import type { Place } from '../model/problem.ts';
import type { FindingKind } from '../model/problem-code.ts';
import { type DesiredRule, formatRuleKey, type LiveRule } from '../model/rule.ts';
import type { Effect } from '../policy/traffic.ts';

/** A live rule as a person knows it. `name` and `place` are null when no manifest names the rule. */
export interface RuleRef {
  readonly id: string;
  readonly key: string;
  readonly name: string | null;
  readonly place: Place | null;
}

/** One difference. `effect.opens` is traffic that the live rules drop and the kernel lets pass because of it. */
export interface Finding {
  readonly kind: FindingKind;
  /** One sentence for a person. */
  readonly summary: string;
  /** The live rules concerned: for `stale` the rule that was changed in place. */
  readonly rules: readonly RuleRef[];
  /** What the kernel lacks (`missing`) or holds too much (`stale`, `extra`), as canonical keys of rules. */
  readonly elements: readonly string[];
  readonly effect: Effect;
  /** With `table-missing`: the table is there, and switched off. */
  readonly dormant?: boolean;
}

/** Findings by what they are; `structure`: of chains, jumps, verdict rules, and unknown things. */
export type FindingCounts = Readonly<Record<'missing' | 'stale' | 'extra' | 'structure', number>>;

/** What a check of the kernel found. `unreadable`: the table could not be read, `message` says why and what to do. */
export interface EnforcementReport {
  readonly state: 'enforced' | 'differs' | 'unreadable';
  readonly message: string | null;
  readonly findings: readonly Finding[];
  readonly counts: FindingCounts;
  /** The whole difference in traffic: what the live rules drop and the kernel accepts (opens), and the reverse. */
  readonly effect: Effect;
  readonly liveRules: number;
  /** Elements in the kernel; grows while the server rebuilds its filter. */
  readonly elements: number;
  /** The kernel's number of the table: one that was deleted and made anew has another. Absent when it is not known. */
  readonly tableHandle?: number;
}

/** What the kernel was last seen to hold, and how long that was waited for (ms; null: not waited). */
export interface KernelState {
  readonly report: EnforcementReport;
  readonly waitedMs: number | null;
}

/** A rule's name and place in the manifests, by its canonical key. */
export type RuleNames = ReadonlyMap<string, { readonly name: string; readonly place: Place }>;

/** The names of desired rules, for findings; of equal rules the first. */
export function collectRuleNames(rules: readonly DesiredRule[]): RuleNames {
  return new Map(rules.toReversed().map(({ rule, name, place }) => [formatRuleKey(rule), { name, place }]));
}

/** A report that says only why the kernel could not be asked. */
export function reportUnreadable(message: string, liveRules: number): EnforcementReport {
  const counts = { missing: 0, stale: 0, extra: 0, structure: 0 };
  const effect = { opens: [], closes: [] };
  return { state: 'unreadable', message, findings: [], counts, effect, liveRules, elements: 0 };
}

/** Kinds of findings that replacing a rule mends, the most harmful first. */
export const mendable: readonly FindingKind[] = ['table-missing', 'user-chain-missing', 'missing', 'stale'];

/**
 * The rule to replace next, as a set of live ids: one at most. Deleting a rule that the kernel does not hold as it is makes
 * the server build its whole filter anew from its database, which mends every other difference too (observed:
 * recordings/packet_filter_boot), and four such deletes within 5 s stop the server: so one, and then look again. Only rules
 * that a manifest asks for are replaced; a missing rule first, whose absence meanwhile changes nothing.
 */
export function repairTargets(report: EnforcementReport): ReadonlySet<string> {
  // Replacing a rule does not wake a table.
  const awake = report.findings.filter(({ dormant }) => dormant !== true);
  const ids = mendable.flatMap((mended) => {
    const rules = awake.flatMap((finding) => (finding.kind === mended ? finding.rules : []));
    return rules.flatMap(({ name, id }) => (name === null ? [] : id)).sort();
  });
  return new Set(ids.slice(0, 1));
}

/** The kernel's packet filter, read-only: whether it holds the live rules. Never throws; `unreadable` says what to do. */
export interface Enforcement {
  check(live: readonly LiveRule[], names: RuleNames, signal: AbortSignal): Promise<EnforcementReport>;
}
