import { type NetworkBits, toNetwork } from './inet.ts';
import { formatPorts, type StoredPortRange } from './ports.ts';

export type StoredAction = 'accept' | 'drop';
export type StoredPortType = 'tcp' | 'udp';

/** A row of the rules table. */
export interface RuleRow {
  readonly id: string;
  readonly action: StoredAction;
  readonly destination: string;
  readonly ports: { readonly type: StoredPortType; readonly range: StoredPortRange } | null;
  readonly userId: string | null;
  readonly insertedAt: string;
  readonly updatedAt: string;
  readonly network: NetworkBits;
}

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

export function makeRow(row: Omit<RuleRow, 'network'>): RuleRow {
  return { ...row, network: toNetwork(row.destination) };
}

/** The row as the API shows it, keys in the server's (alphabetical) order. */
export function showRow(row: RuleRow): StoredRule {
  return {
    action: row.action,
    destination: row.destination,
    id: row.id,
    inserted_at: row.insertedAt,
    port_range: row.ports === null ? null : formatPorts(row.ports.range),
    port_type: row.ports?.type ?? null,
    updated_at: row.updatedAt,
    user_id: row.userId,
  };
}
