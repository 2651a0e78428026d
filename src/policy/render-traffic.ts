import { compareNetworks, coverRange, type Network } from '../model/address.ts';
import { getOrMake } from '../model/group-by.ts';
import { compareText } from '../model/problem.ts';
import { protocols } from '../model/state.ts';
import { formatPortsKey, type PortSet } from './port-set.ts';
import type { LaneRegions, Slab, TrafficSet } from './region.ts';
import { getLane } from './rule-index.ts';
import type { Traffic } from './traffic.ts';

/** The canonical rendering: the fewest CIDRs with equal ports are one `Traffic`; sorted by user, lowest destination, protocol. */
export function renderTraffic(set: TrafficSet): readonly Traffic[] {
  const cache: Cache = { networks: new Map(), ports: new Map() };
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

interface Piece extends Omit<Traffic, 'user'> {
  readonly lowest: Network;
}

/** Users' regions are cut from each other's and share slabs: each is rendered once. */
interface Cache {
  readonly networks: Map<Slab, readonly Network[]>;
  readonly ports: Map<PortSet, string>;
}

function piecesOf(regions: LaneRegions, cache: Cache): readonly Piece[] {
  const pieces = protocols.flatMap((protocol) => {
    const byPorts = new Map<string, Omit<Piece, 'destinations'> & { readonly destinations: string[] }>();
    for (const family of [4, 6] as const) {
      for (const slab of regions[getLane(family, protocol)] ?? []) {
        const networks = getOrMake(cache.networks, slab, () => coverRange(family, slab.first, slab.last));
        const key = getOrMake(cache.ports, slab.ports, () => formatPortsKey(slab.ports));
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
