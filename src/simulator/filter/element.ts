import { type Address, printAddress } from '../rules/address.ts';
import type { NetworkBits } from '../rules/inet.ts';
import type { StoredPortRange } from '../rules/ports.ts';
import type { RuleRow, StoredAction, StoredPortType } from '../rules/rule.ts';

/** What one rule puts into the packet filter: a network (host bits cleared), with ports or without, in one of its sets. */
export interface TableElement {
  readonly rule: string;
  readonly user: string | null;
  readonly action: StoredAction;
  readonly network: NetworkBits;
  readonly ports: { readonly type: StoredPortType; readonly range: StoredPortRange } | null;
}

export function makeTableElement(row: RuleRow): TableElement {
  const { id, userId, action, network, ports } = row;
  return { rule: id, user: userId, action, network, ports };
}

/** The element's network as text, host bits cleared. */
export function formatNetwork(network: NetworkBits): string {
  const address = printAddress(addressOfBits(network));
  const full = network.family === 4 ? 32 : 128;
  return network.bits.length === full ? address : `${address}/${network.bits.length}`;
}

function addressOfBits(network: NetworkBits): Address {
  const [count, width] = network.family === 4 ? [4, 8] : [8, 16];
  const bits = network.bits.padEnd(count * width, '0');
  const parts = Array.from({ length: count }, (_, index) =>
    Number.parseInt(bits.slice(index * width, (index + 1) * width), 2),
  );
  return { family: network.family, parts };
}
