import type { PortRange } from './port-range.ts';

export type ProfileName = 'firezone-0.7' | 'generic';
export type RuleUpdates = 'replace' | 'patch';

/** All that is assumed of a server beyond the documented API. Facts and their sources: docs/reference/server.md. */
export interface Profile {
  readonly name: ProfileName;
  /** How a changed rule reaches the server: DELETE and POST, or PATCH of the changed fields. */
  readonly ruleUpdates: RuleUpdates;
  /** Whether the server refuses rules that collide (`collides` in rule.ts). */
  readonly refusesCollisions: boolean;
  readonly ports: PortRange;
  /** Whether GET /v0/users may be asked. */
  readonly listsUsers: boolean;
  /** Behaviour of a packet filter that follows the stored rules later; null when the answer is the enforcement. */
  readonly filter: FilterModel | null;
}

/** The asynchronous packet filter of Firezone 0.7 (observed: recordings/perf_live_nft, packet_filter_crash, packet_filter_rebuild). */
export interface FilterModel {
  /** Inserts a second that reach the filter, in the slow case. */
  readonly rate: number;
  /** Deletes a second (observed: 1,000 deletes in 20 s, 1,000 replacements in 27 s). */
  readonly deleteRate: number;
  /** After deleting a rule modified in place, and after an outage: wait at least this long before the next write (ms). */
  readonly rebuildFloorMs: number;
  /** What is stored while the filter is rebuilt for longer than this (ms) never reaches it. */
  readonly patienceMs: number;
}

/** How long the filter may take to build itself anew from that many rules, ms. */
export function estimateRebuildMs({ rate, rebuildFloorMs }: FilterModel, rules: number): number {
  return Math.max(rebuildFloorMs, Math.ceil((rules / rate) * 1000));
}

/** Whether what is stored during such a rebuild still reaches the filter, so that nothing has to wait for its end. */
export function isLossless(filter: FilterModel, rules: number): boolean {
  return estimateRebuildMs(filter, rules) < filter.patienceMs;
}

const profiles: Readonly<Record<ProfileName, Profile>> = {
  'firezone-0.7': {
    name: 'firezone-0.7',
    ruleUpdates: 'replace',
    refusesCollisions: true,
    ports: { low: 1, high: 65534 },
    listsUsers: true,
    filter: { rate: 100, deleteRate: 50, rebuildFloorMs: 3000, patienceMs: 5000 },
  },
  generic: {
    name: 'generic',
    ruleUpdates: 'patch',
    refusesCollisions: false,
    ports: { low: 0, high: 65535 },
    listsUsers: false,
    filter: null,
  },
};

/** The profile of that name, with the way of updating rules replaced when the operator asks for another. */
export function findProfile(name: ProfileName, ruleUpdates?: RuleUpdates): Profile {
  const profile = profiles[name];
  return ruleUpdates === undefined ? profile : { ...profile, ruleUpdates };
}
