import { getOrMake } from '../../model/group-by.ts';
import { compareText } from '../../model/problem.ts';
import {
  compareRules,
  type DesiredRule,
  formatRuleKey,
  isModifiedInPlace,
  type LiveRule,
  sortByRule,
} from '../../model/rule.ts';
import type { DesiredState } from '../../model/state.ts';
import { type BaseRules, indexBase } from '../origin.ts';
import { pairRelated } from './pair-related.ts';

/** A desired rule and the live rule that stands for it. */
export interface Pair {
  readonly desired: DesiredRule;
  readonly live: LiveRule;
  /** Whether both have the same canonical form. */
  readonly equal: boolean;
}

/** The result of matching. Every desired and every live rule given is in exactly one of the lists. */
export interface Matching {
  readonly pairs: readonly Pair[];
  readonly desiredOnly: readonly DesiredRule[];
  readonly liveOnly: readonly LiveRule[];
  /** Members of `liveOnly` that are second copies of a rule in `pairs`. */
  readonly duplicates: ReadonlySet<LiveRule>;
}

export interface MatchInput {
  readonly desired: readonly DesiredRule[];
  readonly live: readonly LiveRule[];
  readonly base: DesiredState | null;
  /** Whether rules that differ may be paired by relation; names carry over edits in any case. */
  readonly pairByRelation: boolean;
}

/**
 * Pairs desired with live rules, in three rounds: equal canonical rules, as multisets; then by name, where the base knows
 * which live rule a name stood for; then by least cost inside related groups (pair-related.ts). Live ids and host bits
 * decide only between exact duplicates.
 */
export function matchRules(input: MatchInput): Matching {
  const equal = matchEqual(
    sortByRule(input.desired, ({ rule }) => rule, compareNames),
    sortByRule(input.live, ({ rule }) => rule, compareCopies),
  );
  const base = indexBase(input.base);
  const named = matchNamed(equal, base);
  const related = input.pairByRelation ? pairRelated(named.desiredOnly, named.liveOnly) : [];
  const paired = new Set<DesiredRule | LiveRule>(related.flatMap(({ desired, live }) => [desired, live]));
  return {
    pairs: [...equal.pairs, ...named.pairs, ...related.map((pair) => ({ ...pair, equal: false }))],
    desiredOnly: named.desiredOnly.filter((rule) => !paired.has(rule)),
    liveOnly: [...equal.duplicates, ...named.liveOnly.filter((rule) => !paired.has(rule))],
    duplicates: new Set(equal.duplicates),
  };
}

interface EqualMatch {
  readonly pairs: readonly Pair[];
  readonly desiredOnly: readonly DesiredRule[];
  readonly liveOnly: readonly LiveRule[];
  readonly duplicates: readonly LiveRule[];
}

/** Walks through both sides, each in canonical order, at once. */
function matchEqual(desired: readonly DesiredRule[], live: readonly LiveRule[]): EqualMatch {
  const pairs: Pair[] = [];
  const desiredOnly: DesiredRule[] = [];
  const liveOnly: LiveRule[] = [];
  const duplicates: LiveRule[] = [];
  for (let [i, j] = [0, 0]; i < desired.length || j < live.length; ) {
    const [mine, theirs] = [desired[i], live[j]];
    const order = mine === undefined ? 1 : theirs === undefined ? -1 : compareRules(mine.rule, theirs.rule);
    if (order <= 0) i++;
    if (order >= 0) j++;
    if (mine !== undefined && theirs !== undefined && order === 0) {
      pairs.push({ desired: mine, live: theirs, equal: true });
    } else if (mine !== undefined && order < 0) {
      desiredOnly.push(mine);
    } else if (theirs !== undefined) {
      const last = pairs.at(-1);
      const isCopy = last !== undefined && compareRules(last.live.rule, theirs.rule) === 0;
      (isCopy ? duplicates : liveOnly).push(theirs);
    }
  }
  return { pairs, desiredOnly, liveOnly, duplicates };
}

/** A name whose base rule is live, and unclaimed, carries that live rule over the edit. */
function matchNamed(equal: EqualMatch, base: BaseRules | null): Omit<EqualMatch, 'duplicates'> {
  if (base === null) return { pairs: [], desiredOnly: equal.desiredOnly, liveOnly: equal.liveOnly };
  const unclaimed = new Map<string, LiveRule[]>();
  for (const rule of equal.liveOnly) getOrMake(unclaimed, formatRuleKey(rule.rule), () => []).push(rule);
  const pairs: Pair[] = [];
  const claimed = new Set<LiveRule>();
  const desiredOnly = equal.desiredOnly.filter((desired) => {
    const before = base.byName.get(desired.name);
    const live = before === undefined ? undefined : unclaimed.get(formatRuleKey(before.rule))?.shift();
    if (live === undefined) return true;
    claimed.add(live);
    pairs.push({ desired, live, equal: false });
    return false;
  });
  return { pairs, desiredOnly, liveOnly: equal.liveOnly.filter((rule) => !claimed.has(rule)) };
}

function compareNames(a: DesiredRule, b: DesiredRule): number {
  return compareText(a.name, b.name);
}

/** Of copies, those whose filter entry is sure come first, then by spelling, then by id. */
function compareCopies(a: LiveRule, b: LiveRule): number {
  return (
    Number(isModifiedInPlace(a)) - Number(isModifiedInPlace(b)) ||
    compareText(a.destinationText, b.destinationText) ||
    compareText(a.id, b.id)
  );
}
