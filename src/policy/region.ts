import type { Interval, Intervals } from './intervals.ts';
import { combinePorts, countPorts, isSamePorts, type PortSet } from './port-set.ts';

/** Consecutive addresses that share one port set, which is never empty. */
export interface Slab extends Interval {
  readonly ports: PortSet;
}

/**
 * An exact set of (address, port) of one family and protocol. The form is canonical, so equal sets are equal lists: slabs
 * ascend, are disjoint, and adjacent ones differ in their ports.
 */
export type Region = readonly Slab[];

export const emptyRegion: Region = [];

/** Collects slabs in ascending order into a region; empty port sets are left out. */
export class RegionBuilder {
  readonly #slabs: Slab[] = [];

  add(first: bigint, last: bigint, ports: PortSet): void {
    if (ports.length === 0) return;
    const previous = this.#slabs.at(-1);
    if (previous !== undefined && previous.last + 1n === first && isSamePorts(previous.ports, ports)) {
      this.#slabs[this.#slabs.length - 1] = { first: previous.first, last, ports: previous.ports };
    } else {
      this.#slabs.push({ first, last, ports });
    }
  }

  /** Adds a slab as it is, so that regions cut from one another share their slabs. */
  addSlab(slab: Slab): void {
    const previous = this.#slabs.at(-1);
    if (previous !== undefined && previous.last + 1n === slab.first) this.add(slab.first, slab.last, slab.ports);
    else if (slab.ports.length > 0) this.#slabs.push(slab);
  }

  build(): Region {
    return this.#slabs.length === 0 ? emptyRegion : this.#slabs;
  }
}

export function unionRegions(a: Region, b: Region): Region {
  if (a.length === 0) return b;
  if (b.length === 0) return a;
  return combine(a, b, (inA, inB) => inA || inB);
}

/** The union of two regions that share no address. */
export function joinRegions(a: Region, b: Region): Region {
  if (a.length === 0) return b;
  if (b.length === 0) return a;
  const out = new RegionBuilder();
  let i = 0;
  for (const slab of a) {
    for (let other = b[i]; other !== undefined && other.first < slab.first; other = b[++i]) out.addSlab(other);
    out.addSlab(slab);
  }
  for (const slab of b.slice(i)) out.addSlab(slab);
  return out.build();
}

export function intersectRegions(a: Region, b: Region): Region {
  if (a.length === 0 || b.length === 0) return emptyRegion;
  return combine(a, b, (inA, inB) => inA && inB);
}

/** What is in `a` and not in `b`. */
export function subtractRegions(a: Region, b: Region): Region {
  if (a.length === 0 || b.length === 0) return a;
  return combine(a, b, (inA, inB) => inA && !inB);
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
      if (cut.first > from) out.add(from, cut.first - 1n, ports);
      if (cut.last >= from) from = cut.last + 1n;
      if (cut.last > last) break;
      j++;
    }
    if (from === first) out.addSlab(slab);
    else if (from <= last) out.add(from, last, ports);
  }
  return out.build();
}

export function isSameRegion(a: Region, b: Region): boolean {
  if (a === b) return true;
  if (a.length !== b.length) return false;
  return a.every((slab, i) => {
    const other = b[i];
    return (
      other !== undefined &&
      slab.first === other.first &&
      slab.last === other.last &&
      isSamePorts(slab.ports, other.ports)
    );
  });
}

/** Number of (address, port) pairs. */
export function measureRegion(region: Region): bigint {
  return region.reduce((sum, { first, last, ports }) => sum + (last - first + 1n) * BigInt(countPorts(ports)), 0n);
}

/** The lowest address of the region with its lowest port; null when the region is empty. */
export function findWitness(region: Region): { readonly address: bigint; readonly port: number } | null {
  const slab = region[0];
  const range = slab?.ports[0];
  return slab === undefined || range === undefined ? null : { address: slab.first, port: range.low };
}

function combine(a: Region, b: Region, keep: (inA: boolean, inB: boolean) => boolean): Region {
  const out = new RegionBuilder();
  const starts = a.concat(b).flatMap(({ first, last }) => [first, last + 1n]);
  starts.sort((x, y) => (x < y ? -1 : x > y ? 1 : 0));
  let i = 0;
  let j = 0;
  for (let e = 0; e + 1 < starts.length; e++) {
    const first = starts[e] ?? 0n;
    const last = (starts[e + 1] ?? 0n) - 1n;
    if (first > last) continue;
    i = skipTo(a, i, first);
    j = skipTo(b, j, first);
    const inA = portsAt(a[i], first);
    const inB = portsAt(b[j], first);
    out.add(first, last, combinePorts(inA, inB, keep));
  }
  return out.build();
}

function skipTo(region: Region, from: number, address: bigint): number {
  let i = from;
  for (let slab = region[i]; slab !== undefined && slab.last < address; slab = region[i]) i++;
  return i;
}

function portsAt(slab: Slab | undefined, address: bigint): PortSet {
  return slab !== undefined && slab.first <= address ? slab.ports : [];
}
