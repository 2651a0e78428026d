import { getOrMake } from '../../model/group-by.ts';
import { createTouches } from '../../model/intervals.ts';
import type { Rule } from '../../model/rule.ts';
import { type CollectedTraffic, collectTraffic } from '../../policy/collect-traffic.ts';
import { type LaneRegions, layOver, noTraffic } from '../../policy/region.ts';
import { indexRules } from '../../policy/rule-index.ts';
import { getRank, noRank } from '../../policy/verdict.ts';
import { eachMeeting } from '../meeting.ts';
import { listRules, type Operation } from '../plan.ts';
import { type Entry, formatClassKey, getVerdictIn, type RegionClass } from './ordering.ts';

/** For each component (positions in `operations`): the rules that stay and share a packet with a rule of its own. */
export function findKeptRules(
  operations: readonly Operation[],
  components: readonly (readonly number[])[],
  kept: readonly Rule[],
): readonly (readonly Rule[])[] {
  const componentOf = new Int32Array(operations.length).fill(-1);
  for (const [number, component] of components.entries()) for (const one of component) componentOf[one] = number;
  const changed = listRules(operations).filter(({ operation }) => componentOf[operation] !== -1);
  const touches = createTouches(changed.map(({ rule }) => rule.destination));
  const near = kept.filter(({ destination }) => touches(destination));
  const found = new Map<number, Set<Rule>>();
  const add = (rule: Rule, operation: number): void => {
    getOrMake(found, componentOf[operation] as number, () => new Set()).add(rule);
  };
  if (near.length > 0) {
    eachMeeting(
      [...changed, ...near.map((rule) => ({ rule, operation: -1 }))],
      ({ rule }) => rule,
      (outer, inner) => {
        if (outer.operation < 0) add(outer.rule, inner.operation);
        else if (inner.operation < 0) add(inner.rule, outer.operation);
      },
      ({ operation }) => operation >= 0,
    );
  }
  return components.map((_, component) => [...(found.get(component) ?? [])]);
}

/** A rule of before ∪ after around one component; `operation` is -1 for a rule that stays. */
interface Item extends Entry {
  readonly rule: Rule;
  /** From 1, equal for rules equal but for their user; 0 where match sets do not matter. */
  readonly mark: number;
}

/** A component's rules and those that stay around it, with the operations numbered from 0. */
export interface Surroundings {
  readonly operations: readonly Operation[];
  readonly kept: readonly Rule[];
}

/** Packets that the same rules match. */
interface Region {
  readonly matchSet: number;
  /** The best rank among the rules that stay. */
  readonly kept: number;
  /** The rules that operations add or remove, by rank; none ranks behind `kept`. */
  readonly entries: readonly Item[];
}

/** The traffic of a component on which two operations or more bear, by `classesOf`. `byMatchSet`: other rules that match count too. */
export function collectRegions<C>(
  { operations, kept }: Surroundings,
  byMatchSet: boolean,
  classesOf: (region: Region) => readonly C[],
): CollectedTraffic<C> {
  const marks = new Map<string, number>();
  const matchSets = new Map<number, number>();
  const itemOf = (rule: Rule, operation: number, added: boolean): Item => {
    const { destination, ports } = rule;
    const rank = getRank(rule);
    if (!byMatchSet) return { rule, rank, operation, added, mark: 0 };
    const text = `${destination.text} ${ports?.type} ${ports?.low}-${ports?.high} ${rank} ${operation} ${added}`;
    return { rule, rank, operation, added, mark: getOrMake(marks, text, () => marks.size + 1) };
  };
  const changed = listRules(operations).map(({ rule, operation, added }) => itemOf(rule, operation, added));
  return collectTraffic<Item, Region, C>({
    index: indexRules([...kept.map((rule) => itemOf(rule, -1, false)), ...changed]),
    within: changed,
    nothing: { matchSet: 0, kept: noRank, entries: [] },
    keyOf: ({ rank }) => rank,
    add: (outer, items) => addItems(outer, items, matchSets),
    describe: ({ rank, operation, added, mark }) => `${rank} ${operation} ${added} ${mark}`,
    // Where all items are of one operation, order cannot matter.
    classesOf: (region) =>
      region.entries.some(({ operation }) => operation !== region.entries[0]?.operation) ? classesOf(region) : [],
  });
}

/** `matchSets` numbers the sets by the one before and the mark that makes it another. */
function addItems(outer: Region, items: readonly Item[], matchSets: Map<number, number>): Region {
  let { matchSet, kept } = outer;
  const entries = [...outer.entries];
  for (const item of items) {
    if (item.mark > 0) matchSet = getOrMake(matchSets, matchSet * 2 ** 22 + item.mark, () => matchSets.size + 1);
    if (item.operation >= 0) entries.push(item);
    else kept = Math.min(kept, item.rank);
  }
  const relevant = entries.filter(({ rank }) => rank <= kept);
  relevant.sort((a, b) => a.rank - b.rank || a.operation - b.operation || Number(a.added) - Number(b.added));
  return { matchSet, kept, entries: relevant };
}

/**
 * Counts the regions of a component: for each source, family and protocol, every distinct set of rules that some packet
 * matches, when at least two operations bear on its verdict; merged by what decides it. `users`: how many users any rule names.
 */
export function countRegions(surroundings: Surroundings, users: number): readonly RegionClass[] {
  const classes = new Map<string, { weight: number; readonly kept: number; readonly entries: readonly Entry[] }>();
  const seen = new Map<string, { readonly key: string }>();
  const { nobody, others } = collectRegions(surroundings, true, ({ matchSet, kept, entries }) => {
    const key = formatClassKey(kept, entries);
    getOrMake(classes, key, () => ({ weight: 0, kept, entries }));
    return [getOrMake(seen, `${matchSet} ${key}`, () => ({ key }))];
  });
  const weigh = ({ key }: { readonly key: string }, sources: number, regions: LaneRegions): void => {
    const found = classes.get(key);
    if (found !== undefined) found.weight += sources * regions.filter(({ length }) => length > 0).length;
  };
  for (const [one, regions] of nobody) weigh(one, 1 + users, regions);
  for (const { users: alike, changes } of others) {
    for (const [one, slabs] of changes) {
      const theirs = nobody.get(one) ?? noTraffic;
      weigh(one, alike.length, layOver(theirs, slabs));
      weigh(one, -alike.length, theirs);
    }
  }
  return [...classes]
    .filter(([, { weight }]) => weight > 0)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, { weight, kept, entries: items }]) => {
      const entries = items.map(({ operation, rank, added }) => ({ operation, rank, added }));
      const verdictWhen = (isDone: boolean): boolean => getVerdictIn({ kept, entries }, () => isDone);
      return { weight, kept, entries, before: verdictWhen(false), after: verdictWhen(true) };
    });
}
