import type { PortRange } from '../model/port-range.ts';
import type { Protocol } from '../model/state.ts';

/**
 * A canonical piece of traffic: from one user's devices (null: devices of nobody) to `destinations` (the fewest CIDRs that
 * cover the addresses, canonical order). `ports` are maximal ranges in ascending order; null for protocol `other`.
 */
export interface Traffic {
  readonly user: string | null;
  readonly destinations: readonly string[];
  readonly protocol: Protocol;
  readonly ports: readonly PortRange[] | null;
}

/** The traffic that a plan opens (dropped before, accepted after) and closes; sorted; both empty when no traffic changes. */
export interface Effect {
  readonly opens: readonly Traffic[];
  readonly closes: readonly Traffic[];
}
