import type { RuleRow } from '../rules/rule.ts';
import type { FilterPacket, FilterVerdict } from './verdict.ts';

/** What a packet filter is told: rows that came and went. Updates never reach it (observed: recordings/packet_filter_patch). */
export interface PacketFilter {
  /** Told before a row changes, so that what is due by then happens to the rows as they were. */
  readonly settle?: () => void;
  readonly userAdded?: (userId: string) => void;
  readonly inserted: (row: RuleRow) => void;
  readonly deleted: (row: RuleRow) => void;
  /** A user went, with its rules; told before their deletion is. */
  readonly userDeleted: (userId: string) => void;
  readonly view: PacketFilterView;
  readonly close: () => void;
}

/** What the packet filter holds and does, for tests and the admin pages. */
export interface PacketFilterView {
  readonly verdict: (packet: FilterPacket) => FilterVerdict;
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

/** What a packet filter may know of the server, and the one thing that it can do to it. */
export interface FilteredServer {
  readonly rows: () => Iterable<RuleRow>;
  readonly userIds: () => readonly string[];
  /** Ends the server at once, as crashes that follow too fast do (observed: recordings/packet_filter_crash_loop). */
  readonly exit: (reason: string) => void;
}
