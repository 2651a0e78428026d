import { formatAddressBits, parseAddress } from '../rules/address.ts';
import type { RuleRow, StoredAction } from '../rules/rule.ts';

/** What the packet filter holds and does, for tests and the admin pages. */
export interface PacketFilterView {
  readonly verdict: (packet: FilterPacket) => StoredAction;
  /** The rows as they were when they came into the filter. */
  readonly elements: () => readonly RuleRow[];
  readonly state: () => FilterState;
}

export interface FilterState {
  /** Inserts and deletes that have not reached the filter yet. */
  readonly pending: number;
  readonly rebuilding: boolean;
  readonly crashes: number;
  /** Rules whose insertion was dropped while a rebuild took too long. */
  readonly lost: readonly string[];
}

/** A packet from a device of a user (or of nobody) to an address; ports count for tcp and udp only. */
export interface FilterPacket {
  readonly user: string | null;
  readonly destination: string;
  readonly protocol: 'tcp' | 'udp' | 'icmp' | 'other';
  readonly port?: number;
}

/** User rules first, then port rules, accept before drop; default accept (observed: recordings/packet_filter_verdicts). */
export function decideVerdict(elements: Iterable<RuleRow>, packet: FilterPacket): StoredAction {
  const address = parseAddress(packet.destination);
  if (address === undefined) throw new Error(`not an address: ${packet.destination}`);
  const bits = formatAddressBits(address);
  let best = noRank;
  for (const element of elements) {
    const rank = rankOf(element);
    if (rank >= best || element.network.family !== address.family || !bits.startsWith(element.network.bits)) continue;
    if (element.userId !== null && element.userId !== packet.user) continue;
    if (matchesPorts(element, packet)) best = rank;
  }
  return best !== noRank && best % 2 === 1 ? 'drop' : 'accept';
}

const noRank = 8;

/** 0 to 7: user before global, ports before none, accept (even) before drop (odd). */
function rankOf(element: RuleRow): number {
  return (element.userId === null ? 4 : 0) + (element.ports === null ? 2 : 0) + (element.action === 'drop' ? 1 : 0);
}

function matchesPorts(element: RuleRow, packet: FilterPacket): boolean {
  if (element.ports === null) return true;
  const { type, range } = element.ports;
  const { port } = packet;
  return packet.protocol === type && port !== undefined && port >= range.low && port <= range.high;
}
