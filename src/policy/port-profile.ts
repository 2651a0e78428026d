import type { PortRange } from '../model/port-range.ts';
import type { Protocol } from '../model/state.ts';
import { cutPorts, Paint } from './port-pieces.ts';
import { getLastPort } from './port-set.ts';

/** A number for every port: `keys[i]` from port `starts[i]` to the one before `starts[i + 1]`. Neighbouring keys differ. */
export interface PortProfile {
  readonly starts: readonly number[];
  readonly keys: readonly number[];
}

/** The same key for every port. */
export function makeFlatProfile(key: number): PortProfile {
  return { starts: [0], keys: [key] };
}

/** A key for some ports (null: all of them). */
export interface Layer {
  readonly ports: PortRange | null;
  readonly key: number;
}

/** The profile with each layer's key on its ports wherever it is lower than what is there: O(n log n) for n layers. */
export function lowerProfile(profile: PortProfile, layers: readonly Layer[], protocol: Protocol): PortProfile {
  if (layers.length > fewLayers) return lowerByMany(profile, layers, getLastPort(protocol));
  return layers.reduce((lowered, layer) => lowerByOne(lowered, layer, getLastPort(protocol)), profile);
}

/** Up to this many layers are laid on one by one. */
const fewLayers = 3;

function lowerByOne(profile: PortProfile, { ports, key }: Layer, end: number): PortProfile {
  const low = ports?.low ?? 0;
  const high = ports?.high ?? end;
  const out = new ProfileBuilder();
  for (let i = 0; i < profile.keys.length; i++) {
    const from = profile.starts[i] ?? 0;
    const to = (profile.starts[i + 1] ?? end + 1) - 1;
    const value = profile.keys[i] ?? key;
    if (value <= key || to < low || from > high) {
      out.put(from, value);
      continue;
    }
    if (from < low) out.put(from, value);
    out.put(Math.max(from, low), key);
    if (to > high) out.put(high + 1, value);
  }
  return out;
}

/** Cuts the ports at every edge and paints the pieces, the lowest key first; a painted piece is not looked at again. */
function lowerByMany(profile: PortProfile, layers: readonly Layer[], end: number): PortProfile {
  const edges = cutPorts(
    profile.starts,
    layers.map(({ ports }) => ports),
    end,
  );
  const painted = new Paint(edges);
  const lowest = new Float64Array(edges.length).fill(Number.POSITIVE_INFINITY);
  for (const { ports, key } of layers.toSorted((a, b) => a.key - b.key)) {
    painted.each(ports?.low ?? 0, ports?.high ?? end, (piece) => {
      lowest[piece] = key;
      return true;
    });
  }
  const out = new ProfileBuilder();
  let at = 0;
  for (let piece = 0; piece < edges.length; piece++) {
    const start = edges[piece] as number;
    while ((profile.starts[at + 1] ?? Number.POSITIVE_INFINITY) <= start) at++;
    out.put(start, Math.min(profile.keys[at] as number, lowest[piece] as number));
  }
  return out;
}

/** Leaves out what says the same as the port before. */
class ProfileBuilder implements PortProfile {
  readonly starts: number[] = [];
  readonly keys: number[] = [];
  #latest = -1;

  put(start: number, key: number): void {
    if (this.#latest === key) return;
    this.#latest = key;
    this.starts.push(start);
    this.keys.push(key);
  }
}

/** Visits the maximal port ranges over which every profile is constant, in ascending order, with the keys there. */
export function zipProfiles(
  profiles: readonly PortProfile[],
  protocol: Protocol,
  visit: (low: number, high: number, keys: readonly number[]) => void,
): void {
  const at = profiles.map(() => 0);
  const keys = profiles.map(() => 0);
  const end = getLastPort(protocol);
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
