import { compareNetworks, type Network } from '../../model/address.ts';
import { findFirstPosition, getOrMake, groupBy } from '../../model/group-by.ts';
import type { PortRange } from '../../model/port-range.ts';
import type { Rule } from '../../model/rule.ts';
import { type Intervals, intersectIntervals, toIntervals, unionIntervals } from '../../policy/intervals.ts';
import { type PortSet, touchesPorts } from '../../policy/port-set.ts';
import {
  collectNamedPorts,
  findNodesReaching,
  getLane,
  getLaneRules,
  indexRules,
  type LaneIndex,
  lanes,
  type RuleIndex,
} from '../../policy/rule-index.ts';
import { getRank } from '../../policy/verdict.ts';
import type { Operation } from '../operations.ts';
import { PortOverlaps } from '../port-overlaps.ts';
import { type Item, makeMark, type View } from './cells.ts';

/** The rules of before ∪ after around the operations that need a closer look. */
export interface Neighbourhood {
  readonly index: RuleIndex<Item>;
  /** Rules of all users, whoever they are, by lane. */
  readonly ofUsers: readonly LaneIndex<UserItem>[];
  /** Every user named in any rule of before ∪ after, sorted. */
  readonly users: readonly string[];
  /** Of the rules of one network, those without ports or with one of the given. */
  readonly withPorts: (items: readonly Item[], ports: PortSet) => readonly Item[];
  /** Equal for users whose rules in a lane nothing tells apart. */
  readonly kindOf: (own: LaneIndex<Item>) => number;
}

interface UserItem {
  readonly rule: Rule;
  readonly user: string;
}

/** The addresses that a component's operations name, by user scope (null: global) and lane. */
export type Areas = ReadonlyMap<string | null, readonly Intervals[]>;

/** Surveys the kept rules that touch the given operations (positions in `operations`), and the operations' own. */
export function survey(
  operations: readonly Operation[],
  close: readonly number[],
  kept: readonly Rule[],
): Neighbourhood {
  const users = new Set<string>();
  const changed: Pick<Item, 'rule' | 'operation' | 'added'>[] = [];
  for (const rule of kept) if (rule.userId !== null) users.add(rule.userId);
  for (const { removed, added } of operations) {
    for (const rule of [removed, added]) if (rule !== null && rule.userId !== null) users.add(rule.userId);
  }
  for (const operation of close) {
    const { removed, added } = operations[operation] as Operation;
    if (removed !== null) changed.push({ rule: removed, operation, added: false });
    if (added !== null) changed.push({ rule: added, operation, added: true });
  }
  const rules = changed.map(({ rule }) => rule);
  const items: Item[] = [];
  const put = (rule: Rule, operation: number, added: boolean): void => {
    items.push({ rule, operation, added, rank: getRank(rule), mark: makeMark(items.length) });
  };
  for (const rule of touching(kept, rules)) put(rule, -1, false);
  for (const { rule, operation, added } of changed) put(rule, operation, added);
  items.sort((a, b) => compareNetworks(a.rule.destination, b.rule.destination));
  const anonymous = indexRules(neighbours(items, rules));
  return {
    index: indexRules(items),
    ofUsers: lanes.map((_, lane) => getLaneRules(anonymous, null, lane)),
    users: [...users].sort(),
    withPorts: portFilter(),
    kindOf: kinds(),
  };
}

/** Networks with more rules than this get an index of their ports. */
const fewItems = 16;

function portFilter(): Neighbourhood['withPorts'] {
  const known = new Map<readonly Item[], ReturnType<typeof indexed>>();
  const indexed = (items: readonly Item[]) => {
    const flat = items.filter(({ rule }) => rule.ports === null);
    const others = items.filter(({ rule }) => rule.ports !== null);
    return { flat, others, overlaps: new PortOverlaps(others.map(({ rule }) => rule.ports as PortRange)) };
  };
  return (items, ports) => {
    if (items.length <= fewItems) {
      return items.filter(({ rule }) => rule.ports === null || touchesPorts(ports, rule.ports));
    }
    const { flat, others, overlaps } = getOrMake(known, items, () => indexed(items));
    const found = new Set<number>();
    for (const range of ports) overlaps.each(range, (position) => found.add(position));
    return [...flat, ...[...found].map((position) => others[position] as Item)];
  };
}

function kinds(): Neighbourhood['kindOf'] {
  const known = new Map<LaneIndex<Item>, number>();
  const numbers = new Map<string, number>();
  const numberOf = (own: LaneIndex<Item>): number =>
    getOrMake(numbers, own.items.map(itemKey).join(), () => numbers.size);
  return (own) => getOrMake(known, own, () => numberOf(own));
}

/** The users' rules that touch a changed global rule, as if they were one user's. */
function neighbours(items: readonly Item[], changed: readonly Rule[]): readonly UserItem[] {
  const global = changed.filter(({ userId }) => userId === null);
  if (global.length === 0) return [];
  const owned = items.map(({ rule }) => rule).filter(({ userId }) => userId !== null);
  return touching(owned, global).map((rule) => ({ rule: { ...rule, userId: null }, user: rule.userId ?? '' }));
}

/** The rules whose network shares an address with one of the others. */
function touching(rules: readonly Rule[], others: readonly Rule[]): readonly Rule[] {
  const areas = { 4: familyArea(others, 4), 6: familyArea(others, 6) };
  return rules.filter(({ destination: { family, first, last } }) => {
    const intervals = areas[family];
    const next = intervals[findFirstPosition(intervals.length, (index) => (intervals[index]?.last ?? 0n) >= first)];
    return next !== undefined && next.first <= last;
  });
}

function familyArea(rules: readonly Rule[], family: 4 | 6): Intervals {
  return toIntervals(rules.map(({ destination }) => destination).filter((network) => network.family === family));
}

/** What to look at of a component in each lane: rules that share no port with its own bear on none of its regions. */
export function makeViews(
  { withPorts }: Neighbourhood,
  operations: readonly Operation[],
  byMatchSet: boolean,
): readonly View[] {
  const rules = operations.flatMap(({ removed, added }) => [
    ...(removed === null ? [] : [{ rule: removed }]),
    ...(added === null ? [] : [{ rule: added }]),
  ]);
  return lanes.map(({ protocol }, lane) => {
    const ports = collectNamedPorts(rules, lane);
    return { protocol, within: (items) => withPorts(items, ports), byMatchSet };
  });
}

/** The areas of a component's operations. */
export function collectAreas(operations: readonly Operation[]): Areas {
  const scopes = new Map<string | null, Network[][]>();
  for (const { removed, added } of operations) {
    if (removed !== null) name(scopes, removed);
    if (added !== null) name(scopes, added);
  }
  return new Map([...scopes].map(([user, byLane]) => [user, byLane.map(toIntervals)]));
}

function name(scopes: Map<string | null, Network[][]>, { userId, destination, ports }: Rule): void {
  const byLane = getOrMake(scopes, userId, () => lanes.map(() => []));
  for (const protocol of ports === null ? allProtocols : [ports.type]) {
    byLane[getLane(destination.family, protocol)]?.push(destination);
  }
}

const allProtocols = ['tcp', 'udp', 'other'] as const;

/** How many networks, of rules of anybody, reach into the areas. */
export function countNetworks({ index, ofUsers }: Neighbourhood, areas: Areas): number {
  let count = 0;
  for (const [user, byLane] of areas) {
    for (const [lane, intervals] of byLane.entries()) {
      for (const area of intervals) {
        count += findNodesReaching(getLaneRules(index, null, lane), area).length;
        if (user !== null) count += findNodesReaching(getLaneRules(index, user, lane), area).length;
        else if (ofUsers[lane] !== undefined) count += findNodesReaching(ofUsers[lane], area).length;
      }
    }
  }
  return count;
}

/** The component's areas of one scope in one lane. */
export function getArea(areas: Areas, user: string | null, lane: number): Intervals {
  return areas.get(user)?.[lane] ?? [];
}

/** Whether the component has no rule in the lane. */
export function isUntouched(areas: Areas, lane: number): boolean {
  for (const byLane of areas.values()) if ((byLane[lane]?.length ?? 0) > 0) return false;
  return true;
}

/** Users with the same rules of their own, which reach into the component's areas in one lane, and where. */
export interface Residents {
  readonly users: readonly string[];
  /** The rules of one of them. */
  readonly own: LaneIndex<Item>;
  /** Addresses of their own rules inside the areas: elsewhere their traffic fares like nobody's. */
  readonly home: Intervals;
}

/** The users whose own rules reach into the component's areas, in order; those that nothing tells apart together. */
export function findResidents(neighbourhood: Neighbourhood, areas: Areas, lane: number): readonly Residents[] {
  const global = getArea(areas, null, lane);
  const users = new Set<string>([...areas.keys()].filter((user) => user !== null));
  const ofUsers = neighbourhood.ofUsers[lane];
  if (ofUsers !== undefined && ofUsers.items.length > 0) {
    for (const area of global) {
      for (const { items } of findNodesReaching(ofUsers, area)) for (const { user } of items) users.add(user);
    }
  }
  const rulesOf = (user: string): LaneIndex<Item> => getLaneRules(neighbourhood.index, user, lane);
  const alike = groupBy([...users].sort(), (user) => neighbourhood.kindOf(rulesOf(user)));
  return [...alike.values()]
    .map((members) => {
      const [user = ''] = members;
      const own = rulesOf(user);
      const home = intersectIntervals(own.named, unionIntervals(global, getArea(areas, user, lane)));
      return { users: members, own, home };
    })
    .filter(({ home }) => home.length > 0);
}

/** A rule as the ordering sees it, but for its user: an operation tells its rule apart from every other. */
function itemKey({ rule: { destination, ports }, rank, operation, added }: Item): string {
  return `${destination.text} ${ports?.low}-${ports?.high} ${rank} ${operation} ${added}`;
}
