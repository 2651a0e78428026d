import { type Address, formatAddress } from '../rules/address.ts';
import type { Network } from '../rules/inet.ts';
import { networkOf } from '../rules/inet.ts';
import type { PortRange } from '../rules/ports.ts';
import type { Action, PortType, RuleRow } from '../rules/rule.ts';

/** What one rule puts into the packet filter: a network (host bits cleared), with ports or without, in one of its sets. */
export interface FilterElement {
  readonly rule: string;
  readonly user: string | null;
  readonly action: Action;
  readonly network: Network;
  readonly ports: { readonly type: PortType; readonly range: PortRange } | null;
}

export function elementOf(row: RuleRow): FilterElement {
  const { action, ports, userId } = row;
  return { rule: row.id, user: userId, action, network: networkOf(row.destination), ports };
}

/** The element's network as text, host bits cleared. */
export function formatNetwork(network: Network): string {
  const address = formatAddress(addressOfBits(network));
  const full = network.family === 4 ? 32 : 128;
  return network.bits.length === full ? address : `${address}/${network.bits.length}`;
}

function addressOfBits(network: Network): Address {
  const [count, width] = network.family === 4 ? [4, 8] : [8, 16];
  const bits = network.bits.padEnd(count * width, '0');
  const parts = Array.from({ length: count }, (_, index) =>
    Number.parseInt(bits.slice(index * width, (index + 1) * width), 2),
  );
  return { family: network.family, parts };
}
