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

/** Collects slabs in ascending order into a region; empty port sets are left out. */
export class RegionBuilder {
  readonly #slabs: Slab[] = [];

  /** Kept as it is where it joins no other, so that regions cut from one another share their slabs. */
  add(slab: Slab): void {
    if (slab.ports.length === 0) return;
    const previous = this.#slabs.at(-1);
    if (previous !== undefined && previous.last + 1n === slab.first && isSamePorts(previous.ports, slab.ports)) {
      this.#slabs[this.#slabs.length - 1] = { first: previous.first, last: slab.last, ports: previous.ports };
    } else {
      this.#slabs.push(slab);
    }
  }

  build(): Region {
    return this.#slabs.length === 0 ? emptyRegion : this.#slabs;
  }
}

/** The union of a region and slabs, in ascending order, which share no address with it. */
export function joinRegions(a: Region, b: readonly Slab[]): Region {
  const out = new RegionBuilder();
  let i = 0;
  for (const slab of a) {
    for (let other = b[i]; other !== undefined && other.first < slab.first; other = b[++i]) out.add(other);
    out.add(slab);
  }
  for (const slab of b.slice(i)) out.add(slab);
  return out.build();
}

/** The part of the region outside the addresses. */
export function cutRegion(region: Region, addresses: Intervals): Region {
  if (region.length === 0 || addresses.length === 0) return region;
  const out = new RegionBuilder();
  let j = 0;
  for (const slab of region) {
    const { first, last, ports } = slab;
    let from = first;
    for (let cut = addresses[j]; cut !== undefined && cut.first <= last; cut = addresses[j]) {
      if (cut.first > from) out.add({ first: from, last: cut.first - 1n, ports });
      if (cut.last >= from) from = cut.last + 1n;
      if (cut.last > last) break;
      j++;
    }
    if (from === first) out.add(slab);
    else if (from <= last) out.add({ first: from, last, ports });
  }
  return out.build();
}

/** One region a lane, in the order of `lanes`. */
export type LaneRegions = readonly Region[];

export const noTraffic: LaneRegions = lanes.map(() => emptyRegion);
