import { getOrMake } from '../../model/group-by.ts';
import { type DesiredRule, type LiveRule, type Rule, type WireRule, wireFields } from '../../model/rule.ts';
import { eachLevel, type Level } from '../nesting.ts';

export interface RelatedPair {
  readonly desired: DesiredRule;
  readonly live: LiveRule;
}

/**
 * Pairs what is left of the two sides, each in canonical order: in each round the rules that differ in one set of fields, the smallest
 * sets first. A pair has one user, destinations that share an address, and one action; or only the action differs. No two rules
 * would have made a pair with fewer changed fields than each of them has now.
 */
export function pairRelated(desired: readonly DesiredRule[], live: readonly LiveRule[]): readonly RelatedPair[] {
  const pairs: RelatedPair[] = [];
  let wanted = desired.map(({ rule }, index): Item => ({ side: 'desired', index, rule, isPaired: false }));
  let found = live.map(({ rule }, index): Item => ({ side: 'live', index, rule, isPaired: false }));
  const pair: Pairing = (mine, theirs) => {
    for (let [a, b] = [mine.at(-1), theirs.at(-1)]; a && b; [a, b] = [mine.at(-1), theirs.at(-1)]) {
      mine.pop();
      theirs.pop();
      a.isPaired = b.isPaired = true;
      pairs.push({ desired: desired[a.index] as DesiredRule, live: live[b.index] as LiveRule });
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

/**
 * The fields that are equal in each round. What may differ: one field; then the action alone; then two and more. Of equally many, those
 * that keep the destination come first.
 */
const rounds: readonly (typeof wireFields)[] = (() => {
  const fields = wireFields.map(({ name }) => name).filter((name) => name !== 'action' && name !== 'user_id');
  const edits = fields
    .reduce<(keyof WireRule)[][]>((sets, name) => sets.concat(sets.map((set) => [...set, name])), [[]])
    .slice(1)
    .sort((a, b) => a.length - b.length || Number(a.includes('destination')) - Number(b.includes('destination')));
  edits.splice(fields.length, 0, ['action']);
  return edits.map((edit) => wireFields.filter(({ name }) => !edit.includes(name)));
})();

interface Group {
  readonly desired: Item[];
  readonly live: Item[];
}

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
