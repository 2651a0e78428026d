import { groupBy } from '../model/group-by.ts';
import { joinSome } from '../model/printable.ts';
import type { Place, Problem } from '../model/problem.ts';
import type { FindingKind } from '../model/problem-code.ts';
import { type DesiredRule, formatRuleKey, type LiveRule } from '../model/rule.ts';
import type { Effect, Traffic } from '../policy/traffic.ts';

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
const mendable: readonly FindingKind[] = ['table-missing', 'user-chain-missing', 'missing', 'stale'];

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

/** Findings of one kind that are shown in full; what is left is counted. */
const shownOfKind = 20;
const shownDestinations = 4;
const shownRules = 10;

/** The report as problems for a person: one a finding (`kernel-missing`, `kernel-stale`, …), warnings all. */
export function listEnforcementProblems(report: EnforcementReport): readonly Problem[] {
  if (report.state === 'unreadable') {
    const summary = `The kernel's packet filter could not be checked: ${report.message ?? 'no reason was given'}.`;
    return [{ code: 'kernel-unreadable', severity: 'warning', summary }];
  }
  return [...groupBy(report.findings, ({ kind }) => kind)].flatMap(([kind, findings]) => {
    const shown = findings.slice(0, shownOfKind).map(problemOf);
    const left = findings.length - shown.length;
    const rest = { code: `kernel-${kind}`, severity: 'warning', summary: `${left} more of this kind.` } as const;
    return left > 0 ? [...shown, rest] : shown;
  });
}

function problemOf(finding: Finding): Problem {
  const summary = `${finding.summary.charAt(0).toUpperCase()}${finding.summary.slice(1)}.`;
  // The rules without effect, where the summary only counts them.
  const names = finding.rules.map(({ name, key }) => name ?? key);
  const { opens, closes } = finding.effect;
  const hints = [
    names.length > 1 && `concerns ${joinSome(names, shownRules)}`,
    opens.length > 0 && `lets pass what the rules drop: ${trafficText(opens)}`,
    closes.length > 0 && `drops what the rules accept: ${trafficText(closes)}`,
    remedyOf(finding),
  ];
  const hint = hints.filter(Boolean).join('; ');
  const place = finding.rules.length === 1 ? finding.rules[0]?.place : null;
  return { code: `kernel-${finding.kind}`, severity: 'warning', summary, hint, ...(place ? { place } : {}) };
}

function trafficText(traffic: readonly Traffic[]): string {
  const texts = traffic.map(({ destinations, protocol }) => {
    return `${protocol === 'other' ? 'other protocols' : protocol} to ${joinSome(destinations, shownDestinations)}`;
  });
  const unlike = [...new Set(texts)];
  return unlike.length > 3 ? `${unlike.slice(0, 3).join('; ')}; and more` : unlike.join('; ');
}

function remedyOf({ kind, dormant }: Finding): string {
  if (dormant === true) return 'wake it on the host with `nft add table inet firezone`';
  if (mendable.includes(kind)) return 'replace it with `--repair`, or wait if the server was just started';
  if (kind === 'unknown') return 'find out who made it: it may decide before the rules do';
  return 'a restart of the server builds its filter anew';
}
