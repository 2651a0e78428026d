import type { Network } from '../model/address.ts';
import { type Action, compareRules, type Rule } from '../model/rule.ts';
import type { Protocol } from '../model/state.ts';

/** The rank in the packet filter; lower decides. User ports accept, drop, user accept, drop, then global (packet_filter_verdicts). */
export type Rank = 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7;

/** The rank of a rule. Prefix length and time of creation never matter. */
export function getRank(rule: Rule): Rank {
  return ((rule.userId === null ? 4 : 0) + (rule.ports === null ? 2 : 0) + (rule.action === 'accept' ? 0 : 1)) as Rank;
}

/** The order in which rules that match a packet would decide; of one rank the first in canonical order counts. */
export function compareDeciding(a: Rule, b: Rule): number {
  return getRank(a) - getRank(b) || compareRules(a, b);
}

export const defaultVerdict: Action = 'accept';

/** Below every rank: no rule matches. Even, since the default verdict is accept. */
export const noRank = 8;

/** The verdict of a rank, or of no rule: even ranks accept, odd ranks drop. */
export function getVerdict(rank: Rank | typeof noRank): Action {
  return rank % 2 === 0 ? 'accept' : 'drop';
}

/** One packet. `user` owns the source device; null: nobody's device. `port` is the destination port, ignored for `other`. */
export interface Packet {
  readonly user: string | null;
  readonly address: Network;
  readonly protocol: Protocol;
  readonly port: number;
}

export type Portless = Omit<Packet, 'port'>;

/** Whether the rule matches the packet. Port rules match only tcp or udp; families never mix. */
export function matches(rule: Rule, packet: Packet): boolean {
  if (rule.userId !== null && rule.userId !== packet.user) return false;
  const { destination, ports } = rule;
  if (destination.family !== packet.address.family) return false;
  if (packet.address.first < destination.first || packet.address.first > destination.last) return false;
  if (ports === null) return true;
  return ports.type === packet.protocol && ports.low <= packet.port && packet.port <= ports.high;
}
