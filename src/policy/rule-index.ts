import { compareNetworks, type Family, type Network } from '../model/address.ts';
import { findFirstPosition, getOrMake, groupBy, keepFirst } from '../model/group-by.ts';
import { type Interval, type Intervals, toIntervals } from '../model/intervals.ts';
import { formatRuleKey, type Rule } from '../model/rule.ts';
import { type Protocol, protocols } from '../model/state.ts';
import type { Portless } from './verdict.ts';

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
  protocols.map((protocol) => ({ family, protocol })),
);

/** The place of a family and protocol in `lanes`. */
export function getLane(family: Family, protocol: Protocol): number {
  return (family === 4 ? 0 : 3) + (protocol === 'tcp' ? 0 : protocol === 'udp' ? 1 : 2);
}

/** The rules of one network, in the order given. */
export interface LaneNode<T extends Ruled> {
  readonly network: Network;
  readonly items: readonly T[];
}

/** The rules of one user scope in one lane, sorted by network, wider first: those inside an interval are neighbours. */
export interface LaneIndex<T extends Ruled> {
  readonly items: readonly T[];
  readonly nodes: readonly LaneNode<T>[];
  /** Of each node the nearest earlier one whose network contains it, or -1. */
  readonly parents: Int32Array;
  /** Every address that a rule of the lane names. */
  readonly named: Intervals;
}

/** Rules by user scope (null: global) and lane. Built once, asked often. */
export interface RuleIndex<T extends Ruled> {
  /** The rules of each scope, sorted by network, wider first. */
  readonly scopes: ReadonlyMap<string | null, readonly T[]>;
  /** The scope's rules by lane, made when first asked for. */
  readonly lanesOf: (scope: string | null) => readonly LaneIndex<T>[];
  /** The rules of a lane that users have; of users who have the same there, those of the first. Made when first asked for. */
  readonly ownLane: (lane: number) => LaneIndex<T>;
  /** Users with a rule of their own, sorted. */
  readonly users: readonly string[];
}

/** Indexes the rules: O(n log n). Items of equal networks keep the order given. */
export function indexRules<T extends Ruled>(items: readonly T[]): RuleIndex<T> {
  const compare = (a: T, b: T): number => compareNetworks(a.rule.destination, b.rule.destination);
  const groups = groupBy(items, ({ rule }) => rule.userId);
  const scopes = new Map([...groups].map(([user, mine]) => [user, mine.toSorted(compare)]));
  const users = [...scopes.keys()].filter((user) => user !== null).sort();
  const known = new Map<string | null, readonly LaneIndex<T>[]>();
  const lanesOf = (scope: string | null) => getOrMake(known, scope, () => indexLanes(scopes.get(scope) ?? []));
  const owned = new Map<number, LaneIndex<T>>();
  const ownLane = (lane: number) =>
    getOrMake(owned, lane, () => {
      const own = users.map((user) => lanesOf(user)[lane]?.items ?? []);
      const keyOf = (rules: readonly T[]) =>
        rules.map(({ rule }) => formatRuleKey({ ...rule, userId: null })).join('\n');
      return laneIndex(keepFirst(own, keyOf).flat().sort(compare));
    });
  return { scopes, lanesOf, ownLane, users };
}

function indexLanes<T extends Ruled>(scope: readonly T[]): readonly LaneIndex<T>[] {
  const found = lanes.map((): T[] => []);
  for (const item of scope) {
    const { destination, ports } = item.rule;
    for (const protocol of ports === null ? protocols : [ports.type]) {
      found[getLane(destination.family, protocol)]?.push(item);
    }
  }
  // The last lane of a family holds the rules without ports, which each lane of the family holds.
  const [portless4, portless6] = [laneIndex(found[2] ?? []), laneIndex(found[5] ?? [])];
  return found.map((all, lane) => {
    const shared = lane < 3 ? portless4 : portless6;
    return all.length === shared.items.length ? shared : laneIndex(all);
  });
}

export function getLaneRules<T extends Ruled>(index: RuleIndex<T>, user: string | null, lane: number): LaneIndex<T> {
  return index.lanesOf(user)[lane] ?? emptyLane;
}

/** The nodes whose network contains the address, the narrowest first. */
export function findNodesCovering<T extends Ruled>(lane: LaneIndex<T>, address: bigint): readonly LaneNode<T>[] {
  return chainFrom(lane, countStartingBy(lane, address) - 1, address);
}

/** The nodes that hold the address for a source: the user's before the global ones. */
export function findNodesReached<T extends Ruled>(index: RuleIndex<T>, { user, address, protocol }: Portless) {
  const lane = getLane(address.family, protocol);
  const scopes = user === null ? [null] : [user, null];
  return scopes.flatMap((scope) => findNodesCovering(getLaneRules(index, scope, lane), address.first));
}

/** The nodes whose network holds an address of the interval, sorted by network, wider first. */
export function findNodesReaching<T extends Ruled>(lane: LaneIndex<T>, { first, last }: Interval) {
  const start = countStartingBy(lane, first - 1n);
  const from = chainFrom(lane, start - 1, first).reverse();
  return from.concat(lane.nodes.slice(start, countStartingBy(lane, last)));
}

const emptyLane: LaneIndex<never> = { items: [], nodes: [], parents: new Int32Array(0), named: [] };

/** Of items sorted by network, all of one family. */
function laneIndex<T extends Ruled>(items: readonly T[]): LaneIndex<T> {
  if (items.length === 0) return emptyLane;
  const nodes: { readonly network: Network; readonly items: T[] }[] = [];
  for (const item of items) {
    const network = item.rule.destination;
    const node = nodes.at(-1);
    if (node?.network.first === network.first && node.network.prefix === network.prefix) node.items.push(item);
    else nodes.push({ network, items: [item] });
  }
  const parents = new Int32Array(nodes.length);
  const open: number[] = [];
  for (const [i, { network }] of nodes.entries()) {
    while (open.length > 0 && (nodes[open.at(-1) ?? 0]?.network.last ?? 0n) < network.first) open.pop();
    parents[i] = open.at(-1) ?? -1;
    open.push(i);
  }
  return { items, nodes, parents, named: toIntervals(nodes.map(({ network }) => network)) };
}

function chainFrom<T extends Ruled>(lane: LaneIndex<T>, start: number, address: bigint): LaneNode<T>[] {
  const chain: LaneNode<T>[] = [];
  for (let i = start; i >= 0; i = lane.parents[i] ?? -1) {
    const node = lane.nodes[i];
    if (node !== undefined && node.network.last >= address) chain.push(node);
  }
  return chain;
}

function countStartingBy<T extends Ruled>(lane: LaneIndex<T>, address: bigint): number {
  return findFirstPosition(lane.nodes.length, (index) => (lane.nodes[index] as LaneNode<T>).network.first > address);
}
