import { compareNetworks, type Family, makeNetwork, type Network, width } from '../model/address.ts';
import type { PortRange } from '../model/port-range.ts';
import { compareText } from '../model/problem.ts';
import type { Protocol } from '../model/state.ts';
import type { Interval, Intervals } from './intervals.ts';
import type { PortSet } from './port-set.ts';
import { lanes } from './rule-index.ts';
import type { Traffic } from './traffic.ts';
import type { LaneRegions, TrafficSet } from './traffic-set.ts';

/**
 * The canonical rendering: for each user and protocol, addresses with equal port sets form one `Traffic` whose destinations
 * are the fewest CIDRs. Sorted by user (nobody first), lowest destination, protocol. Equal sets give equal results.
 */
export function renderTraffic(set: TrafficSet): readonly Traffic[] {
  const rendered = new Map<LaneRegions, readonly Piece[]>();
  const users = [...set.keys()].sort((a, b) => compareText(a ?? '', b ?? ''));
  return users.flatMap((user) => {
    const regions = set.get(user) ?? [];
    const pieces = rendered.get(regions) ?? piecesOf(regions);
    rendered.set(regions, pieces);
    return pieces.map(({ destinations, protocol, ports }) => ({ user, destinations, protocol, ports }));
  });
}

/** The fewest networks that cover exactly the addresses, in ascending order. */
export function networksOf(family: Family, intervals: Intervals): readonly Network[] {
  return intervals.flatMap((interval) => splitInterval(family, interval));
}

/** Traffic of several users at once, for people. */
export interface JoinedTraffic {
  /** Sorted; null first. */
  readonly users: readonly (string | null)[];
  readonly destinations: readonly string[];
  readonly protocol: Protocol;
  readonly ports: readonly PortRange[] | null;
}

/** Joins pieces that differ only in their user, in the order of their first piece. Needs canonical input. */
export function joinUsers(traffic: readonly Traffic[]): readonly JoinedTraffic[] {
  const joined = new Map<string, { users: (string | null)[]; piece: Traffic }>();
  const texts = new Map<readonly string[], string>();
  for (const piece of traffic) {
    const destinations = texts.get(piece.destinations) ?? piece.destinations.join(' ');
    texts.set(piece.destinations, destinations);
    const key = `${piece.protocol} ${portsKey(piece.ports ?? [])} ${destinations}`;
    const same = joined.get(key);
    if (same === undefined) joined.set(key, { users: [piece.user], piece });
    else same.users.push(piece.user);
  }
  return [...joined.values()].map(({ users, piece: { destinations, protocol, ports } }) => ({
    users,
    destinations,
    protocol,
    ports,
  }));
}

interface Piece {
  readonly lowest: Network;
  readonly destinations: readonly string[];
  readonly protocol: Protocol;
  readonly ports: readonly PortRange[] | null;
}

interface Group {
  readonly protocol: Protocol;
  readonly ports: PortSet;
  readonly intervals: { 4: Interval[]; 6: Interval[] };
}

function piecesOf(regions: LaneRegions): readonly Piece[] {
  const groups = new Map<string, Group>();
  for (const [lane, region] of regions.entries()) {
    const { family, protocol } = lanes[lane] ?? { family: 4, protocol: 'other' };
    for (const { first, last, ports } of region) {
      const key = `${protocol} ${portsKey(ports)}`;
      let group = groups.get(key);
      if (group === undefined) {
        group = { protocol, ports, intervals: { 4: [], 6: [] } };
        groups.set(key, group);
      }
      group.intervals[family].push({ first, last });
    }
  }
  return [...groups.values()].flatMap(pieceOf).sort(comparePieces);
}

function pieceOf({ protocol, ports, intervals }: Group): readonly Piece[] {
  const networks = [...networksOf(4, intervals[4]), ...networksOf(6, intervals[6])];
  const lowest = networks[0];
  if (lowest === undefined) return [];
  const destinations = networks.map(({ text }) => text);
  return [{ lowest, destinations, protocol, ports: protocol === 'other' ? null : ports }];
}

const protocolOrder: Readonly<Record<Protocol, number>> = { tcp: 0, udp: 1, other: 2 };

function comparePieces(a: Piece, b: Piece): number {
  return compareNetworks(a.lowest, b.lowest) || protocolOrder[a.protocol] - protocolOrder[b.protocol];
}

function portsKey(ports: PortSet): string {
  return ports.map(({ low, high }) => `${low}-${high}`).join(',');
}

function splitInterval(family: Family, { first, last }: Interval): Network[] {
  const out: Network[] = [];
  const bits = width(family);
  for (let from = first; from <= last; ) {
    let size = 0;
    while (size < bits && fits(from, size + 1, last)) size++;
    const network = makeNetwork(family, from, bits - size);
    out.push(network);
    from = network.last + 1n;
  }
  return out;
}

/** Whether the block of 2^size addresses from `from` is aligned and ends by `last`. */
function fits(from: bigint, size: number, last: bigint): boolean {
  const block = 1n << BigInt(size);
  return from % block === 0n && from + block - 1n <= last;
}
