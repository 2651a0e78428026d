import type { Ports } from '../model/port-range.ts';
import type { Protocol } from '../model/state.ts';
import { lastPort } from './port-set.ts';

/**
 * A number for every port, lower wins: `keys[i]` holds from port `starts[i]` to the port before `starts[i + 1]` (or the last
 * one). Neighbouring keys differ.
 */
export interface Profile {
  readonly starts: readonly number[];
  readonly keys: readonly number[];
}

/** The same key for every port. */
export function flatProfile(key: number): Profile {
  return { starts: [0], keys: [key] };
}

/** The profile with `key` on the given ports (null: all) wherever it is lower than what is there. */
export function lowerProfile(profile: Profile, ports: Ports | null, protocol: Protocol, key: number): Profile {
  const low = ports?.low ?? 0;
  const high = ports?.high ?? lastPort(protocol);
  const end = lastPort(protocol);
  const starts: number[] = [];
  const keys: number[] = [];
  let latest = -1;
  const put = (start: number, value: number): void => {
    if (latest === value) return;
    latest = value;
    starts.push(start);
    keys.push(value);
  };
  for (let i = 0; i < profile.keys.length; i++) {
    const from = profile.starts[i] ?? 0;
    const to = (profile.starts[i + 1] ?? end + 1) - 1;
    const value = profile.keys[i] ?? key;
    if (value <= key || to < low || from > high) {
      put(from, value);
      continue;
    }
    if (from < low) put(from, value);
    put(Math.max(from, low), key);
    if (to > high) put(high + 1, value);
  }
  return { starts, keys };
}

/** Visits the maximal port ranges over which every profile is constant, in ascending order, with the keys there. */
export function zipProfiles(
  profiles: readonly Profile[],
  protocol: Protocol,
  visit: (low: number, high: number, keys: readonly number[]) => void,
): void {
  const at = profiles.map(() => 0);
  const keys = profiles.map(() => 0);
  const end = lastPort(protocol);
  for (let low = 0; low <= end; ) {
    let high = end;
    for (let p = 0; p < profiles.length; p++) {
      const profile = profiles[p];
      if (profile === undefined) continue;
      while ((profile.starts[(at[p] ?? 0) + 1] ?? Infinity) <= low) at[p] = (at[p] ?? 0) + 1;
      keys[p] = profile.keys[at[p] ?? 0] ?? 0;
      high = Math.min(high, (profile.starts[(at[p] ?? 0) + 1] ?? Infinity) - 1);
    }
    visit(low, high, keys);
    low = high + 1;
  }
}
