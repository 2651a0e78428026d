import { compareNetworks, coverRange, type Family, type Network } from '../model/address.ts';
import { getOrMake } from '../model/group-by.ts';
import type { PortRange } from '../model/port-range.ts';
import { compareText } from '../model/problem.ts';
import type { Protocol } from '../model/state.ts';
import type { PortSet } from './port-set.ts';
import type { Slab } from './region.ts';
import { getLane } from './rule-index.ts';
import type { Traffic } from './traffic.ts';
import type { LaneRegions, TrafficSet } from './traffic-set.ts';

/** The canonical rendering: the fewest CIDRs with equal ports are one `Traffic`; sorted by user, lowest destination, protocol. */
export function renderTraffic(set: TrafficSet): readonly Traffic[] {
  const cache: Cache = { networks: new Map(), ports: new Map(), groups: new Map() };
  const rendered = new Map<LaneRegions, readonly Piece[]>();
  const users = [...set.keys()].sort((a, b) => compareText(a ?? '', b ?? ''));
  const out: Traffic[] = [];
  for (const user of users) {
    const regions = set.get(user) ?? [];
    const pieces = getOrMake(rendered, regions, () => piecesOf(regions, cache));
    for (const { destinations, protocol, ports } of pieces) out.push({ user, destinations, protocol, ports });
  }
  return out;
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
  /** By family; adjacent addresses are one slab already, since their ports are equal. */
  readonly slabs: Readonly<Record<Family, Slab[]>>;
}

/** Users' regions are cut from each other's and share slabs: each is rendered once. */
interface Cache {
  readonly networks: Map<Slab, readonly Network[]>;
  readonly ports: Map<PortSet, string>;
  /** By protocol and ports, as first rendered: most users differ from nobody in few groups only. */
  readonly groups: Map<string, { readonly group: Group; readonly pieces: readonly Piece[] }>;
}

function piecesOf(regions: LaneRegions, cache: Cache): readonly Piece[] {
  const pieces: Piece[] = [];
  for (const protocol of ['tcp', 'udp', 'other'] as const) {
    const groups = new Map<string, Group>();
    for (const family of [4, 6] as const) {
      for (const slab of regions[getLane(family, protocol)] ?? []) {
        const key = getOrMake(cache.ports, slab.ports, () => portsKey(slab.ports));
        const makeGroup = (): Group => ({ protocol, ports: slab.ports, slabs: { 4: [], 6: [] } });
        getOrMake(groups, key, makeGroup).slabs[family].push(slab);
      }
    }
    for (const [key, group] of groups) {
      for (const piece of sharedPieces(`${protocol} ${key}`, group, cache)) pieces.push(piece);
    }
  }
  return pieces.sort(comparePieces);
}

function sharedPieces(key: string, group: Group, cache: Cache): readonly Piece[] {
  const known = getOrMake(cache.groups, key, () => ({ group, pieces: pieceOf(group, cache) }));
  const same = ([4, 6] as const).every((family) => sameItems(known.group.slabs[family], group.slabs[family]));
  return same ? known.pieces : pieceOf(group, cache);
}

function sameItems<T>(a: readonly T[], b: readonly T[]): boolean {
  return a.length === b.length && a.every((item, i) => item === b[i]);
}

function pieceOf({ protocol, ports, slabs }: Group, cache: Cache): readonly Piece[] {
  const destinations: string[] = [];
  let lowest: Network | undefined;
  for (const family of [4, 6] as const) {
    for (const slab of slabs[family]) {
      const networks = getOrMake(cache.networks, slab, () => coverRange(family, slab.first, slab.last));
      lowest ??= networks[0];
      for (const { text } of networks) destinations.push(text);
    }
  }
  return lowest === undefined ? [] : [{ lowest, destinations, protocol, ports: protocol === 'other' ? null : ports }];
}

const protocolOrder: Readonly<Record<Protocol, number>> = { tcp: 0, udp: 1, other: 2 };

function comparePieces(a: Piece, b: Piece): number {
  return compareNetworks(a.lowest, b.lowest) || protocolOrder[a.protocol] - protocolOrder[b.protocol];
}

function portsKey(ports: PortSet): string {
  return ports.map(({ low, high }) => `${low}-${high}`).join(',');
}
