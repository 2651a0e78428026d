import { compareNetworks, type Family } from '../model/address.ts';
import type { Rule } from '../model/rule.ts';
import type { Protocol } from '../model/state.ts';
import { type Interval, type Intervals, intervalsOf } from './intervals.ts';

/** Anything that stands for a rule: desired and live rules both do. */
export interface Ruled {
  readonly rule: Rule;
}

/** A family and protocol: rules never reach from one lane into another. */
export interface Lane {
  readonly family: Family;
  readonly protocol: Protocol;
}

/** The six lanes; lists "by lane" are in this order. */
export const lanes: readonly Lane[] = ([4, 6] as const).flatMap((family) =>
  (['tcp', 'udp', 'other'] as const).map((protocol) => ({ family, protocol })),
);

/** The place of a family and protocol in `lanes`. */
export function laneOf(family: Family, protocol: Protocol): number {
  return (family === 4 ? 0 : 3) + (protocol === 'tcp' ? 0 : protocol === 'udp' ? 1 : 2);
}

/**
 * The rules of one user scope in one lane, sorted by network, wider first, so that the rules inside an interval are
 * neighbours. `parents[i]` is the nearest earlier item whose network contains item i's, or -1: following it from an item
 * gives every rule that covers it.
 */
export interface LaneIndex<T extends Ruled> {
  readonly items: readonly T[];
  readonly parents: Int32Array;
  /** Every address that a rule of the lane names. */
  readonly named: Intervals;
}

/** Rules by user scope (null: global) and lane. Built once, asked often. */
export interface RuleIndex<T extends Ruled> {
  readonly scopes: ReadonlyMap<string | null, readonly LaneIndex<T>[]>;
  /** Users with a rule of their own, sorted. */
  readonly users: readonly string[];
}

/** Indexes the rules: O(n log n). Items of equal networks keep the order given. */
export function indexRules<T extends Ruled>(items: readonly T[]): RuleIndex<T> {
  const sorted = [...items].sort((a, b) => compareNetworks(a.rule.destination, b.rule.destination));
  const buckets = new Map<string | null, T[][]>([[null, lanes.map(() => [])]]);
  for (const item of sorted) {
    const { userId, destination, ports } = item.rule;
    let scope = buckets.get(userId);
    if (scope === undefined) {
      scope = lanes.map(() => []);
      buckets.set(userId, scope);
    }
    for (const protocol of ports === null ? (['tcp', 'udp', 'other'] as const) : [ports.type]) {
      scope[laneOf(destination.family, protocol)]?.push(item);
    }
  }
  const users = [...buckets.keys()].filter((user) => user !== null).sort();
  return { scopes: new Map([...buckets].map(([user, scope]) => [user, scope.map(laneIndex)])), users };
}

/** The scope's rules in the lane. */
export function laneRules<T extends Ruled>(index: RuleIndex<T>, user: string | null, lane: number): LaneIndex<T> {
  return index.scopes.get(user)?.[lane] ?? emptyLane;
}

/** The items whose network contains the address, the narrowest first. */
export function itemsCovering<T extends Ruled>(lane: LaneIndex<T>, address: bigint): readonly T[] {
  return chainFrom(lane, countStartingBy(lane, address) - 1, address);
}

/** The items whose network holds an address of the interval, sorted by network, wider first. */
export function itemsReaching<T extends Ruled>(lane: LaneIndex<T>, { first, last }: Interval): readonly T[] {
  const start = countStartingBy(lane, first - 1n);
  const from = chainFrom(lane, start - 1, first).reverse();
  return from.concat(lane.items.slice(start, countStartingBy(lane, last)));
}

const emptyLane: LaneIndex<never> = { items: [], parents: new Int32Array(0), named: [] };

function laneIndex<T extends Ruled>(items: readonly T[]): LaneIndex<T> {
  if (items.length === 0) return emptyLane;
  const parents = new Int32Array(items.length);
  const open: number[] = [];
  for (const [i, { rule }] of items.entries()) {
    while (open.length > 0 && (items[open.at(-1) ?? 0]?.rule.destination.last ?? 0n) < rule.destination.first)
      open.pop();
    parents[i] = open.at(-1) ?? -1;
    open.push(i);
  }
  return { items, parents, named: intervalsOf(items.map(({ rule }) => rule.destination)) };
}

function chainFrom<T extends Ruled>(lane: LaneIndex<T>, start: number, address: bigint): T[] {
  const chain: T[] = [];
  for (let i = start; i >= 0; i = lane.parents[i] ?? -1) {
    const item = lane.items[i];
    if (item !== undefined && item.rule.destination.last >= address) chain.push(item);
  }
  return chain;
}

function countStartingBy<T extends Ruled>(lane: LaneIndex<T>, address: bigint): number {
  let low = 0;
  let high = lane.items.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const item = lane.items[middle];
    if (item !== undefined && item.rule.destination.first <= address) low = middle + 1;
    else high = middle;
  }
  return low;
}
