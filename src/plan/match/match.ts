import { getOrMake } from '../../model/group-by.ts';
import { compareText } from '../../model/problem.ts';
import {
  compareRules,
  type DesiredRule,
  formatRuleKey,
  isModifiedInPlace,
  type LiveRule,
  type Rule,
  sortByRule,
  type WireRule,
  wireFields,
} from '../../model/rule.ts';
import type { DesiredState } from '../../model/state.ts';
import { eachLevel, type Level } from '../meeting.ts';
import { type BaseRules, indexBase } from '../origin.ts';

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
  /** Whether this rule may be paired by relation with one that differs; names carry over edits in any case. */
  readonly mayPair: (live: LiveRule) => boolean;
}

/**
 * Pairs desired with live rules, in three rounds: equal canonical rules, as multisets; then by name, where the base knows
 * which live rule a name stood for; then by least cost inside related groups. Live ids and host bits
 * decide only between exact duplicates.
 */
export function matchRules(input: MatchInput): Matching {
  const compareNames = (a: DesiredRule, b: DesiredRule): number => compareText(a.name, b.name);
  const desired = sortByRule(input.desired, ({ rule }) => rule, compareNames);
  const live = sortByRule(input.live, ({ rule }) => rule, compareCopies);
  const equal = matchEqual(desired, live);
  const base = indexBase(input.base);
  const named = matchNamed(equal, base);
  const related = pairRelated(named.desiredOnly, named.liveOnly.filter(input.mayPair));
  const paired = new Set<DesiredRule | LiveRule>(related.flatMap((pair) => [pair.desired, pair.live]));
  return {
    pairs: [...equal.pairs, ...named.pairs, ...related],
    desiredOnly: named.desiredOnly.filter((rule) => !paired.has(rule)),
    liveOnly: [...equal.duplicates, ...named.liveOnly.filter((rule) => !paired.has(rule))],
    duplicates: equal.duplicates,
  };
}

/** Walks through both sides, each in canonical order, at once; `liveOnly` is without the duplicates. */
function matchEqual(desired: readonly DesiredRule[], live: readonly LiveRule[]): Matching {
  const pairs: Pair[] = [];
  const desiredOnly: DesiredRule[] = [];
  const liveOnly: LiveRule[] = [];
  const duplicates = new Set<LiveRule>();
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
      if (isCopy) duplicates.add(theirs);
      else liveOnly.push(theirs);
    }
  }
  return { pairs, desiredOnly, liveOnly, duplicates };
}

/** A name whose base rule is live, and unclaimed, carries that live rule over the edit. */
function matchNamed(equal: Matching, base: BaseRules | null): Omit<Matching, 'duplicates'> {
  if (base === null) return { ...equal, pairs: [] };
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

/** Of copies, those whose filter entry is sure come first, then by spelling, then by id. */
function compareCopies(a: LiveRule, b: LiveRule): number {
  return (
    Number(isModifiedInPlace(a)) - Number(isModifiedInPlace(b)) ||
    compareText(a.destinationText, b.destinationText) ||
    compareText(a.id, b.id)
  );
}

/**
 * Pairs what is left of the two sides, each in canonical order: in each round the rules that differ in one set of fields, the smallest
 * sets first. A pair has one user, destinations that share an address, and one action; or only the action differs. No two rules
 * would have made a pair with fewer changed fields than each of them has now.
 */
function pairRelated(desired: readonly DesiredRule[], live: readonly LiveRule[]): readonly Pair[] {
  const pairs: Pair[] = [];
  let wanted = desired.map(({ rule }, index): Item => ({ side: 'desired', index, rule, isPaired: false }));
  let found = live.map(({ rule }, index): Item => ({ side: 'live', index, rule, isPaired: false }));
  const pair: Pairing = (mine, theirs) => {
    for (let [a, b] = [mine.at(-1), theirs.at(-1)]; a && b; [a, b] = [mine.at(-1), theirs.at(-1)]) {
      mine.pop();
      theirs.pop();
      a.isPaired = b.isPaired = true;
      pairs.push({ desired: desired[a.index] as DesiredRule, live: live[b.index] as LiveRule, equal: false });
    }
  };
  for (const same of rounds) {
    if (wanted.length === 0 || found.length === 0) break;
    const before = pairs.length;
    for (const group of groupsOf(wanted, found, same)) pairNested(group, pair);
    if (pairs.length === before) continue;
    wanted = wanted.filter(({ isPaired }) => !isPaired);
    found = found.filter(({ isPaired }) => !isPaired);
  }
  return pairs;
}

interface Item {
  readonly side: 'desired' | 'live';
  readonly index: number;
  readonly rule: Rule;
  isPaired: boolean;
}

/** Pairs from the ends of two lists, and takes what is paired from them. */
type Pairing = (desired: Item[], live: Item[]) => void;

/** The fields equal in each round. One may differ; then the action alone; then two and more, those that keep the destination first. */
const rounds: readonly (typeof wireFields)[] = (() => {
  const fields = wireFields.map(({ name }) => name).filter((name) => name !== 'action' && name !== 'user_id');
  const edits = fields
    .reduce<(keyof WireRule)[][]>((sets, name) => sets.concat(sets.map((set) => [...set, name])), [[]])
    .slice(1)
    .sort((a, b) => a.length - b.length || Number(a.includes('destination')) - Number(b.includes('destination')));
  edits.splice(fields.length, 0, ['action']);
  return edits.map((edit) => wireFields.filter(({ name }) => !edit.includes(name)));
})();

type Group = Readonly<Record<Item['side'], Item[]>>;

/** Rules of both sides with the same values in all fields but those in which the round lets them differ. */
function groupsOf(desired: readonly Item[], live: readonly Item[], same: typeof wireFields): readonly Group[] {
  const keyOf = ({ rule }: Item): string => same.map(({ read }) => read(rule)).join(' ');
  const groups = new Map<string, Group>();
  for (const item of desired) getOrMake(groups, keyOf(item), () => ({ desired: [], live: [] })).desired.push(item);
  for (const item of live) groups.get(keyOf(item))?.live.push(item);
  return [...groups.values()].filter((group) => group.live.length > 0);
}

/** A network and the rules of each side that are still free, the first at the end. */
interface Node extends Group {
  readonly prefix: number;
  readonly outer: Node | undefined;
}

/** The narrowest networks first, each with the nearest network around it that has a free rule of the other side. */
function pairNested({ desired, live }: Group, pair: Pairing): void {
  const nodes = new Map<Level<Item>, Node>();
  eachLevel(
    [...desired, ...live],
    ({ rule }) => rule.destination,
    (level, enclosing) => {
      const around = enclosing.at(-1);
      const free = (side: Item['side']): Item[] => level.items.filter((item) => item.side === side).reverse();
      const outer = around && nodes.get(around);
      nodes.set(level, { prefix: level.network.prefix, outer, desired: free('desired'), live: free('live') });
    },
  );
  for (const node of [...nodes.values()].sort((a, b) => b.prefix - a.prefix)) {
    pair(node.desired, node.live);
    for (let { outer } = node; outer !== undefined; outer = outer.outer) {
      pair(node.desired, outer.live);
      pair(outer.desired, node.live);
    }
  }
}
