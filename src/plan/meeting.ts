import { compareNetworks, contains, type Network } from '../model/address.ts';
import { getOrMake, groupBy } from '../model/group-by.ts';
import { type PortRange, type Ports, type PortType, portsIntersect } from '../model/port-range.ts';
import type { Rule } from '../model/rule.ts';

/** Visits each pair whose rules share a packet, the wider network first; with `isAsked` pairs with one of those. Costs what is found. */
export function eachMeeting<T>(
  items: readonly T[],
  ruleOf: (item: T) => Rule,
  visit: (outer: T, inner: T) => void,
  isAsked: (item: T) => boolean = () => true,
): void {
  const known = new Map<Level<T>, Finders>();
  const finders = (level: Level<T>): Finders => getOrMake(known, level, () => findersOf(level.items, ruleOf, isAsked));
  /** Visits those of the first `count` items of the level that meet the item. */
  const visitAmong = (level: Level<T>, count: number, inner: T): void => {
    const rule = ruleOf(inner);
    const asked = isAsked(inner);
    if (level.items.length > fewItems) {
      const { all, ofAsked } = finders(level);
      (asked ? all : ofAsked)?.(rule, (position) => {
        if (position < count) visit(level.items[position] as T, inner);
      });
      return;
    }
    for (let position = 0; position < count; position++) {
      const outer = level.items[position] as T;
      if ((asked || isAsked(outer)) && meets(rule, ruleOf(outer))) visit(outer, inner);
    }
  };
  for (const { level, enclosing } of listLevels(items, (item) => ruleOf(item).destination)) {
    for (const inner of level.items) for (const outer of enclosing) visitAmong(outer, outer.items.length, inner);
    for (let position = 1; position < level.items.length; position++) {
      visitAmong(level, position, level.items[position] as T);
    }
  }
}

type Finders = ReturnType<typeof findersOf>;

/** Finders among all items of a level, and among those that are asked about; null where there are none. */
function findersOf<T>(items: readonly T[], ruleOf: (item: T) => Rule, isAsked: (item: T) => boolean) {
  const positions = [...items.keys()];
  const rules = items.map(ruleOf);
  const asked = positions.filter((position) => isAsked(items[position] as T));
  const all = finderOf(rules, positions);
  return { all, ofAsked: asked.length === 0 ? null : asked.length === items.length ? all : finderOf(rules, asked) };
}

/** Calls back with the position of each item of a level that shares a source, a protocol and a port with the rule. */
type Finder = (rule: Rule, visit: (position: number) => void) => void;

/** Levels of more items than this get an index, and so do sources within them. */
const fewItems = 16;

function finderOf(rules: readonly Rule[], among: readonly number[]): Finder {
  const everybody = finderOfSource(rules, among);
  const bySource = groupBy(among, (position) => (rules[position] as Rule).userId);
  const sources = new Map<string | null, Finder>();
  const source = (userId: string | null): Finder =>
    getOrMake(sources, userId, () => finderOfSource(rules, bySource.get(userId) ?? []));
  return (rule, visit) => {
    if (rule.userId === null) return everybody(rule, visit);
    source(rule.userId)(rule, visit);
    source(null)(rule, visit);
  };
}

/** Whether rules with intersecting networks share a packet: a source, a protocol, a port. */
function meets(a: Rule, b: Rule): boolean {
  if (a.userId !== b.userId && a.userId !== null && b.userId !== null) return false;
  return a.ports === null || b.ports === null || portsIntersect(a.ports, b.ports);
}

/** Among rules that all share a source with those that are looked for. */
function finderOfSource(rules: readonly Rule[], among: readonly number[]): Finder {
  if (among.length <= fewItems) {
    return (rule, visit) => {
      for (const position of among) if (meets(rule, rules[position] as Rule)) visit(position);
    };
  }
  const portsOf = (position: number): Ports | null => (rules[position] as Rule).ports;
  const withoutPorts = among.filter((position) => portsOf(position) === null);
  const ofType = (type: PortType) => {
    const at = among.filter((position) => portsOf(position)?.type === type);
    return { at, eachOverlap: findPortOverlaps(at.map((position) => portsOf(position) as Ports)) };
  };
  const withPorts = { tcp: ofType('tcp'), udp: ofType('udp') };
  return ({ ports }, visit) => {
    for (const position of ports === null ? among : withoutPorts) visit(position);
    if (ports === null) return;
    const { at, eachOverlap } = withPorts[ports.type];
    eachOverlap(ports, (number) => visit(at[number] as number));
  };
}

/** Finds, in O(log n) each, those of the port ranges that share a port with another one, and calls back with their positions. */
function findPortOverlaps(ranges: readonly PortRange[]) {
  const at = (position: number): PortRange => ranges[position] as PortRange;
  /** Positions of the ranges, by lowest port. */
  const order = Int32Array.from(ranges.keys()).sort((a, b) => at(a).low - at(b).low || a - b);
  const lows = order.map((position) => at(position).low);
  const leaves = 2 ** Math.ceil(Math.log2(Math.max(1, ranges.length)));
  /** The highest port of the ranges below a node of a binary tree over `order`; node 1 is the root, 2n and 2n + 1 are below n. */
  const highest = new Int32Array(2 * leaves).fill(-1);
  for (const [index, position] of order.entries()) highest[leaves + index] = at(position).high;
  for (let node = leaves - 1; node > 0; node--) {
    highest[node] = Math.max(highest[2 * node] as number, highest[2 * node + 1] as number);
  }
  return ({ low, high }: PortRange, visit: (position: number) => void): void => {
    const search = (node: number, first: number, size: number): void => {
      if (first >= order.length || (lows[first] as number) > high || (highest[node] as number) < low) return;
      if (size === 1) {
        visit(order[first] as number);
        return;
      }
      search(2 * node, first, size / 2);
      search(2 * node + 1, first + size / 2, size / 2);
    };
    search(1, 0, leaves);
  };
}

interface Level<T> {
  readonly network: Network;
  readonly items: readonly T[];
}

/** The items by network, each with the earlier networks that enclose it, outermost first (`enclosing` is reused). */
function* listLevels<T>(items: readonly T[], networkOf: (item: T) => Network) {
  const sorted = items.toSorted((a, b) => compareNetworks(networkOf(a), networkOf(b)));
  const enclosing: Level<T>[] = [];
  for (let from = 0; from < sorted.length; ) {
    const network = networkOf(sorted[from] as T);
    let to = from + 1;
    while (to < sorted.length && compareNetworks(networkOf(sorted[to] as T), network) === 0) to++;
    while (enclosing.length > 0 && !contains((enclosing.at(-1) as Level<T>).network, network)) enclosing.pop();
    const level: Level<T> = { network, items: sorted.slice(from, to) };
    yield { level, enclosing };
    enclosing.push(level);
    from = to;
  }
}
