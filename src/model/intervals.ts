import type { Family, Network } from './address.ts';
import { findFirstPosition, getOrMake } from './group-by.ts';

/** Addresses of one family from `first` to `last`, both included. */
export type Interval = Readonly<Record<'first' | 'last', bigint>>;

/** Addresses of one family: ascending, disjoint, never adjacent. */
export type Intervals = readonly Interval[];

/** The addresses of all the networks or intervals, which must be of one family. */
export function toIntervals(parts: readonly Interval[]): Intervals {
  const out: { readonly first: bigint; last: bigint }[] = [];
  for (const { first, last } of [...parts].sort((a, b) => (a.first < b.first ? -1 : a.first > b.first ? 1 : 0))) {
    const previous = out.at(-1);
    if (previous === undefined || previous.last + 1n < first) out.push({ first, last });
    else if (previous.last < last) previous.last = last;
  }
  return out;
}

export function unionIntervals(a: Intervals, b: Intervals): Intervals {
  if (a.length === 0) return b;
  return b.length === 0 ? a : toIntervals([...a, ...b]);
}

/** Tells whether a network shares an address with one of these. */
export function createTouches(networks: readonly Network[]): (network: Network) => boolean {
  const areas = new Map<Family, Intervals>();
  const areaOf = (family: Family): Intervals => toIntervals(networks.filter((one) => one.family === family));
  return ({ family, first, last }) => {
    const area = getOrMake(areas, family, () => areaOf(family));
    const next = area[findFirstPosition(area.length, (index) => (area[index] as Interval).last >= first)];
    return next !== undefined && next.first <= last;
  };
}

export function intersectIntervals(a: Intervals, b: Intervals): Intervals {
  const out: Interval[] = [];
  let i = 0;
  let j = 0;
  for (let left = a[i], right = b[j]; left !== undefined && right !== undefined; left = a[i], right = b[j]) {
    const first = pickHigher(left.first, right.first);
    const last = pickLower(left.last, right.last);
    if (first <= last) out.push({ first, last });
    if (left.last < right.last) i++;
    else j++;
  }
  return out;
}

export function pickLower(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

export function pickHigher(a: bigint, b: bigint): bigint {
  return a < b ? b : a;
}
