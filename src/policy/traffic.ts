import type { PortRange } from '../model/port-range.ts';
import type { Protocol } from '../model/state.ts';

/** Traffic from one user's devices (null: nobody's) to the fewest CIDRs, in canonical order; `ports`: maximal ranges, null for `other`. */
export interface Traffic {
  readonly user: string | null;
  readonly destinations: readonly string[];
  readonly protocol: Protocol;
  readonly ports: readonly PortRange[] | null;
}

/** The traffic that a plan opens (dropped before, accepted after) and closes; sorted; both empty when no traffic changes. */
export type Effect = Readonly<Record<'opens' | 'closes', readonly Traffic[]>>;

/** An effect that is cut may hold of each kind only what the first who has any has: all of it was too much to list. */
export type FoundEffect = Effect & { readonly isCut?: true };
