import { compareNetworks, coverRange, type Network } from '../model/address.ts';
import { getOrMake } from '../model/group-by.ts';
import { compareText } from '../model/problem.ts';
import { protocols } from '../model/state.ts';
import type { CollectedTraffic } from './collect-traffic.ts';
import { formatPortsKey, type PortSet } from './port-set.ts';
import { type LaneRegions, noTraffic, type Slab } from './region.ts';
import { getLane } from './rule-index.ts';
import type { Traffic } from './traffic.ts';

/**
 * The traffic of a class in the canonical rendering, for nobody and these users, who are sorted: the fewest CIDRs with equal ports are one
 * `Traffic`; sorted by user, lowest destination, protocol.
 */
export function renderTraffic<C>({ nobody, others }: CollectedTraffic<C>, users: readonly string[]) {
  // Users' regions are cut from each other's and share slabs: each is rendered once.
  const [known, keys] = [new Map<Slab, readonly Network[]>(), new Map<PortSet, string>()];
  const render = (regions: LaneRegions): readonly Piece[] => piecesOf(regions, known, keys);
  // Each class is of few users, or there are many classes.
  const owners = new Map<C, { readonly alike: readonly string[]; readonly regions: LaneRegions }[]>();
  for (const { users: alike, traffic } of others)
    for (const [one, regions] of traffic) getOrMake(owners, one, () => []).push({ alike, regions });
  return (one: C): readonly Traffic[] => {
    const common = render(nobody.get(one) ?? noTraffic);
    const own = new Map<string | null, readonly Piece[]>([[null, common]]);
    for (const { alike, regions } of owners.get(one) ?? []) {
      const pieces = render(regions);
      for (const user of alike) own.set(user, pieces);
    }
    const sources = common.length > 0 ? [null, ...users] : [...own.keys()].sort(compareSources);
    return sources.flatMap((user) =>
      (own.get(user) ?? common).map(({ destinations, protocol, ports }) => ({ user, destinations, protocol, ports })),
    );
  };
}

const compareSources = (a: string | null, b: string | null): number => compareText(a ?? '', b ?? '');

interface Piece extends Omit<Traffic, 'user'> {
  readonly lowest: Network;
}

function piecesOf(regions: LaneRegions, known: Map<Slab, readonly Network[]>, keys: Map<PortSet, string>) {
  const pieces = protocols.flatMap((protocol) => {
    const byPorts = new Map<string, Omit<Piece, 'destinations'> & { readonly destinations: string[] }>();
    for (const family of [4, 6] as const) {
      for (const slab of regions[getLane(family, protocol)] ?? []) {
        const networks = getOrMake(known, slab, () => coverRange(family, slab.first, slab.last));
        const key = getOrMake(keys, slab.ports, () => formatPortsKey(slab.ports));
        const ports = protocol === 'other' ? null : slab.ports;
        const makePiece = () => ({ lowest: networks[0] as Network, destinations: [], protocol, ports });
        const { destinations } = getOrMake(byPorts, key, makePiece);
        for (const { text } of networks) destinations.push(text);
      }
    }
    return [...byPorts.values()];
  });
  // Of one lowest network they stay in the order of the protocols.
  return pieces.sort((a, b) => compareNetworks(a.lowest, b.lowest));
}
