import { compareNetworks, contains, type Network } from '../../model/address.ts';
import { getOrMake, groupBy } from '../../model/group-by.ts';
import { compareText } from '../../model/problem.ts';
import type { DesiredRule, LiveRule, WireRule } from '../../model/rule.ts';
import { compareRules, formatRuleKey, isModifiedInPlace, sortByRule, wireFields } from '../../model/rule.ts';
import type { DesiredState } from '../../model/state.ts';
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
  const free = groupBy(named.liveOnly.filter(input.mayPair), ({ rule }) => rule.userId);
  const related = [...groupBy(named.desiredOnly, ({ rule }) => rule.userId)].flatMap(([userId, mine]) =>
    pairRelated(mine, free.get(userId) ?? []),
  );
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
    const alike = (before && unclaimed.get(formatRuleKey(before.rule))) ?? [];
    // Of two policies, an id is a name.
    const at = alike.findIndex(({ id }) => id === desired.name);
    const [live] = alike.splice(Math.max(at, 0), 1);
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
 * Pairs what is left of the two sides of one user, each in canonical order: in each round the rules that differ in one set of fields, the
 * smallest sets first. A pair has destinations that share an address, and one action; or only the action differs. No two rules
 * would have made a pair with fewer changed fields than each of them has now.
 */
function pairRelated(desired: readonly DesiredRule[], live: readonly LiveRule[]): readonly Pair[] {
  const pairs: Pair[] = [];
  const paired = new Set<DesiredRule | LiveRule>();
  const pair: Pairing = (mine, theirs) => {
    while (mine.length > 0 && theirs.length > 0) {
      const [one, other] = [mine.pop() as DesiredRule, theirs.pop() as LiveRule];
      pairs.push({ desired: one, live: other, equal: false });
      paired.add(one).add(other);
    }
  };
  let [wanted, found] = [desired, live];
  for (const round of rounds) {
    if (wanted.length === 0 || found.length === 0) break;
    for (const group of groupsOf(wanted, found, round)) {
      if (round.moves) pairNested(group, pair);
      else pair(group.desired.reverse(), group.live.reverse());
    }
    wanted = wanted.filter((one) => !paired.has(one));
    found = found.filter((one) => !paired.has(one));
  }
  return pairs;
}

/** Pairs from the ends of two lists, and takes what is paired from them. */
type Pairing = (desired: DesiredRule[], live: LiveRule[]) => void;

/** The fields equal in each round. One may differ; then the action alone; then two and more, those that keep the destination first. */
const rounds = (() => {
  const fields = wireFields.map(({ name }) => name).filter((name) => name !== 'action' && name !== 'user_id');
  const edits = fields
    .reduce<(keyof WireRule)[][]>((sets, name) => sets.concat(sets.map((set) => [...set, name])), [[]])
    .slice(1)
    .sort((a, b) => a.length - b.length || Number(a.includes('destination')) - Number(b.includes('destination')));
  edits.splice(fields.length, 0, ['action']);
  return edits.map((edit) => ({
    same: wireFields.filter(({ name }) => name !== 'user_id' && !edit.includes(name)),
    moves: edit.includes('destination'),
    // Rules without ports have neither of these fields: they would only pair as in a round before.
    needsPorts: edit.includes('port_range') !== edit.includes('port_type'),
  }));
})();

type Group = { readonly desired: DesiredRule[]; readonly live: LiveRule[] };

/** Rules of both sides with the same values in all fields but those in which the round lets them differ. */
function groupsOf(
  desired: readonly DesiredRule[],
  live: readonly LiveRule[],
  { same, needsPorts }: (typeof rounds)[number],
) {
  const keyOf = ({ rule }: DesiredRule | LiveRule): string =>
    same.reduce((key, { read }) => `${key} ${read(rule)}`, '');
  const groups = new Map<string, Group>();
  for (const one of desired) {
    if (needsPorts && one.rule.ports === null) continue;
    getOrMake(groups, keyOf(one), () => ({ desired: [], live: [] })).desired.push(one);
  }
  for (const one of live) groups.get(keyOf(one))?.live.push(one);
  return [...groups.values()].filter((group) => group.live.length > 0);
}

/** A network and the rules of each side that are still free, the first at the end. */
interface Node extends Group {
  readonly network: Network;
  outer: Node | undefined;
}

/** The narrowest networks first, each with the nearest network around it that has a free rule of the other side. */
function pairNested({ desired, live }: Group, pair: Pairing): void {
  const known = new Map<string, Node>();
  const nodeOf = ({ rule: { destination: network } }: DesiredRule | LiveRule): Node =>
    getOrMake(known, network.text, () => ({ network, outer: undefined, desired: [], live: [] }));
  for (const one of desired.reverse()) nodeOf(one).desired.push(one);
  for (const one of live.reverse()) nodeOf(one).live.push(one);
  const nodes = [...known.values()].sort((a, b) => compareNetworks(a.network, b.network));
  let outer: Node | undefined;
  for (const node of nodes) {
    while (outer !== undefined && !contains(outer.network, node.network)) outer = outer.outer;
    node.outer = outer;
    outer = node;
  }
  for (const node of nodes.sort((a, b) => b.network.prefix - a.network.prefix)) {
    pair(node.desired, node.live);
    for (let { outer: around } = node; around !== undefined; around = around.outer) {
      pair(node.desired, around.live);
      pair(around.desired, node.live);
    }
  }
}
