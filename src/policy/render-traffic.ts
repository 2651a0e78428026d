import { compareNetworks, coverRange, type Network } from '../model/address.ts';
import { getOrMake } from '../model/group-by.ts';
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
  const sources = [null, ...users];
  const own = new Map(others.flatMap(({ users: alike, traffic }) => alike.map((user) => [user, traffic])));
  return (one: C): readonly Traffic[] => {
    const common = nobody.get(one) ?? noTraffic;
    const rendered = new Map([[common, render(common)]]);
    const out: Traffic[] = [];
    for (const user of sources) {
      const regions = own.get(user ?? '')?.get(one) ?? common;
      const pieces = rendered.get(regions) ?? getOrMake(rendered, regions, () => render(regions));
      for (const { destinations, protocol, ports } of pieces) out.push({ user, destinations, protocol, ports });
    }
    return out;
  };
}

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
