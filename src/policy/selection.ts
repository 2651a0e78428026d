import { Network, readNetworks } from '../model/address.ts';
import type { PolicyCase } from '../model/state.ts';
import { restrictTraffic } from './reach.ts';
import type { Traffic } from './traffic.ts';
import type { Packet } from './verdict.ts';

/** Traffic that somebody names in settings or tests: all of it, not some. Ports count for tcp and udp only. */
export type Selection = Pick<PolicyCase, 'user' | 'destination' | 'protocols' | 'ports'>;

/** Traffic, and the users whom it tells apart: what it says of nobody's devices holds for every other user too. */
export interface Told {
  readonly traffic: readonly Traffic[];
  readonly users: ReadonlySet<string>;
}

/** A packet of the selection that one of the pieces holds, the lowest of the first such piece; null when there is none. */
export function findPacketInBoth({ traffic, users }: Told, selection: Selection): Packet | null {
  const { user } = selection;
  const unnamed = user !== null && user !== 'any' && !users.has(user);
  for (const piece of traffic) {
    const packet = packetOf(piece, unnamed ? { ...selection, user: null } : selection);
    if (packet !== null) return unnamed ? { ...packet, user } : packet;
  }
  return null;
}

function packetOf(piece: Traffic, { user, destination, protocols, ports }: Selection): Packet | null {
  if ((user !== 'any' && user !== piece.user) || !protocols.includes(piece.protocol)) return null;
  const [inside] = restrictTraffic([piece], { network: destination, protocol: null, ports });
  const [lowest] = readNetworks(inside?.destinations.slice(0, 1) ?? []);
  if (inside === undefined || lowest === undefined) return null;
  const address = new Network(lowest.family, lowest.first);
  return { user: piece.user, address, protocol: piece.protocol, port: inside.ports?.[0]?.low ?? 0 };
}
