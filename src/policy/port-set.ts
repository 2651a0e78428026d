import { findFirstPosition } from '../model/group-by.ts';
import type { PortRange } from '../model/port-range.ts';
import type { Protocol } from '../model/state.ts';

/** Ports as maximal ranges: ascending, disjoint, never adjacent. Protocol `other` has the single port 0. */
export type PortSet = readonly PortRange[];

/** The highest port of the protocol's universe: 65535, and 0 for `other`, which knows no ports. */
export function getLastPort(protocol: Protocol): number {
  return protocol === 'other' ? 0 : 65_535;
}

export type OpenRange = Record<'low' | 'high', number>;

/** Appends ports that begin above all others, or among the last; they join the last range where they touch it. */
export function appendPorts(ranges: OpenRange[], low: number, high: number): void {
  const previous = ranges.at(-1);
  if (previous === undefined || previous.high + 1 < low) ranges.push({ low, high });
  else if (previous.high < high) previous.high = high;
}

/** The ports of all the ranges. */
export function toPortSet(ranges: readonly PortRange[]): PortSet {
  const out: OpenRange[] = [];
  for (const { low, high } of ranges.toSorted((a, b) => a.low - b.low)) appendPorts(out, low, high);
  return out;
}

export function touchesPorts(set: PortSet, { low, high }: PortRange): boolean {
  const reaching = set[findFirstPosition(set.length, (index) => (set[index]?.high ?? 0) >= low)];
  return reaching !== undefined && reaching.low <= high;
}

export function isSamePorts(a: PortSet, b: PortSet): boolean {
  if (a === b) return true;
  return a.length === b.length && a.every((range, i) => range.low === b[i]?.low && range.high === b[i]?.high);
}

export function countPorts(set: PortSet): number {
  return set.reduce((sum, { low, high }) => sum + high - low + 1, 0);
}

/** Equal for equal sets. */
export function formatPortsKey(set: PortSet): string {
  return set.map(({ low, high }) => `${low}-${high}`).join(',');
}

export function intersectPorts(a: PortSet, b: PortSet): PortSet {
  if (isSamePorts(a, b)) return a;
  const out: PortRange[] = [];
  let [i, j] = [0, 0];
  for (let [one, other] = [a[i], b[j]]; one !== undefined && other !== undefined; [one, other] = [a[i], b[j]]) {
    const [low, high] = [Math.max(one.low, other.low), Math.min(one.high, other.high)];
    if (low <= high) out.push({ low, high });
    if (one.high < other.high) i++;
    else j++;
  }
  return out;
}

/** The very set `a` where there is nothing to take from it. */
export function subtractPorts(a: PortSet, b: PortSet): PortSet {
  if (b.length === 0) return a;
  if (isSamePorts(a, b)) return [];
  const starts = [Number.NEGATIVE_INFINITY, ...b.map(({ high }) => high + 1)];
  const others = starts.map((low, at) => ({ low, high: (b[at]?.low ?? Number.POSITIVE_INFINITY) - 1 }));
  return intersectPorts(a, others);
}
