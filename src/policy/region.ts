import type { Interval, Intervals } from '../model/intervals.ts';
import { isSamePorts, type PortSet } from './port-set.ts';
import { lanes } from './rule-index.ts';

/** Consecutive addresses that share one port set, which is never empty. */
export interface Slab extends Interval {
  readonly ports: PortSet;
}

/** An exact set of (address, port): ascending, disjoint slabs; adjacent ones differ in ports, so that equal sets are equal lists. */
export type Region = readonly Slab[];

export const emptyRegion: Region = [];

/** Adds a slab above all that are there, the same object where it joins no other, for regions to share. One without ports is left out. */
export function addSlab(slabs: Slab[], slab: Slab): void {
  if (slab.ports.length === 0) return;
  const previous = slabs.at(-1);
  const goesOn = previous?.last === slab.first - 1n && isSamePorts(previous.ports, slab.ports);
  if (goesOn) slabs[slabs.length - 1] = { ...previous, last: slab.last };
  else slabs.push(slab);
}

/** The union of a region and slabs, in ascending order, which share no address with it. */
export function joinRegions(a: Region, b: readonly Slab[]): Region {
  const out: Slab[] = [];
  let i = 0;
  for (const slab of a) {
    for (let other = b[i]; other !== undefined && other.first < slab.first; other = b[++i]) addSlab(out, other);
    addSlab(out, slab);
  }
  for (const slab of b.slice(i)) addSlab(out, slab);
  return out;
}

/** The part of the region outside the addresses. */
export function cutRegion(region: Region, addresses: Intervals): Region {
  if (region.length === 0 || addresses.length === 0) return region;
  const out: Slab[] = [];
  let j = 0;
  for (const slab of region) {
    const { first, last, ports } = slab;
    let from = first;
    for (let cut = addresses[j]; cut !== undefined && cut.first <= last; cut = addresses[j]) {
      if (cut.first > from) addSlab(out, { first: from, last: cut.first - 1n, ports });
      if (cut.last >= from) from = cut.last + 1n;
      if (cut.last > last) break;
      j++;
    }
    if (from === first) addSlab(out, slab);
    else if (from <= last) addSlab(out, { first: from, last, ports });
  }
  return out;
}

/** One region a lane, in the order of `lanes`. */
export type LaneRegions = readonly Region[];

export const noTraffic: LaneRegions = lanes.map(() => emptyRegion);

/** The regions with these slabs in place of what they have at the slabs' addresses. */
export function layOver(regions: LaneRegions, changes: LaneRegions): LaneRegions {
  return regions.map((region, lane) => {
    const slabs = changes[lane] ?? emptyRegion;
    return slabs.length === 0 ? region : joinRegions(cutRegion(region, slabs), slabs);
  });
}
