import { type NetworkBits, toNetwork } from './inet.ts';
import { type StoredPortRange, storePorts } from './ports.ts';

export type StoredAction = 'accept' | 'drop';
export type StoredPortType = 'tcp' | 'udp';

/** A rule as `GET /v0/rules` shows it. */
export interface StoredRule {
  readonly action: StoredAction;
  readonly destination: string;
  readonly id: string;
  readonly inserted_at: string;
  readonly port_range: string | null;
  readonly port_type: StoredPortType | null;
  readonly updated_at: string;
  readonly user_id: string | null;
}

/** A row of the rules table, and what it puts into the packet filter: a network (host bits cleared) in one of the sets. */
export interface RuleRow {
  readonly id: string;
  readonly action: StoredAction;
  readonly network: NetworkBits;
  readonly ports: { readonly type: StoredPortType; readonly range: StoredPortRange } | null;
  readonly userId: string | null;
  readonly shown: StoredRule;
  /** `shown` as JSON. */
  readonly text: string;
}

/** The row that is shown so; keys in the server's (alphabetical) order. Throws where ports or the network are none. */
export function makeRow(stored: StoredRule): RuleRow {
  const { action, destination, id, inserted_at, port_range, port_type, updated_at, user_id } = stored;
  const shown = { action, destination, id, inserted_at, port_range, port_type, updated_at, user_id };
  const range = port_range === null ? null : storePorts(port_range);
  if (range === undefined) throw new Error(`not a range of ports: ${port_range}`);
  const ports = range === null || port_type === null ? null : { type: port_type, range };
  return { id, action, network: toNetwork(destination), ports, userId: user_id, shown, text: JSON.stringify(shown) };
}
