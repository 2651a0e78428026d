import { type Cost, compareCosts, type Ordering, type RegionClass } from './ordering.ts';

/** Operations are bits of a 32-bit number. */
const exactLimit = 30;

/**
 * The cheapest order, and among those the first in canonical order; null when more than `limit` states can be reached.
 *
 * Dynamic programming over the sets of operations that may be done: a state's verdicts depend on the set alone, so the
 * cheapest way on from a set does not depend on how it was reached.
 */
export function solveExactly(ordering: Ordering, limit: number): readonly number[] | null {
  if (ordering.size > exactLimit) return null;
  const lattice = reachable(ordering, limit);
  if (lattice === null) return null;
  const steps = cheapestSteps(ordering, lattice, stateCosts(ordering, lattice.sets));
  const order: number[] = [];
  for (let set = 0; order.length < ordering.size; ) {
    const operation = steps[lattice.indexOf.get(set) as number] as number;
    order.push(operation);
    set |= 1 << operation;
  }
  return order;
}

interface Lattice {
  /** Every set that respects the needs, by size. */
  readonly sets: Int32Array;
  /** By set: its index in `sets`, for those that are. */
  readonly indexOf: ReadonlyMap<number, number>;
  readonly needs: Int32Array;
}

function reachable({ size, needs }: Ordering, limit: number): Lattice | null {
  const masks = Int32Array.from({ length: size }, (_, i) =>
    (needs[i] ?? []).reduce((mask, need) => mask | (1 << need), 0),
  );
  const indexOf = new Map([[0, 0]]);
  const sets = [0];
  for (let at = 0; at < sets.length; at++) {
    const set = sets[at] as number;
    for (let i = 0; i < size; i++) {
      if ((set >>> i) & 1 || ((masks[i] as number) & ~set) !== 0) continue;
      const next = set | (1 << i);
      if (indexOf.has(next)) continue;
      if (sets.length >= limit) return null;
      indexOf.set(next, sets.length);
      sets.push(next);
    }
  }
  return { sets: Int32Array.from(sets), indexOf, needs: masks };
}

interface StateCosts {
  readonly opened: Float64Array;
  readonly cutOff: Float64Array;
  readonly openGaps: Float64Array;
  /** Verdicts of the region classes, `words` 32-bit words a state. */
  readonly verdicts: Int32Array;
  readonly words: number;
  readonly weights: Float64Array;
}

function stateCosts({ regions, gaps }: Ordering, sets: Int32Array): StateCosts {
  const words = Math.max(1, Math.ceil(regions.length / 32));
  const costs = {
    opened: new Float64Array(sets.length),
    cutOff: new Float64Array(sets.length),
    openGaps: new Float64Array(sets.length),
    verdicts: new Int32Array(sets.length * words),
    words,
    weights: Float64Array.from(regions, ({ weight }) => weight),
  };
  const gapMasks = gaps.map(({ openers, closers }) => ({ openers: maskOf(openers), closers: maskOf(closers) }));
  for (const [r, region] of regions.entries()) fillRegion(region, r, sets, costs);
  for (const [g, gap] of gaps.entries()) {
    const { openers, closers } = gapMasks[g] ?? { openers: 0, closers: 0 };
    for (let s = 0; s < sets.length; s++) {
      const set = sets[s] as number;
      const opened = gap.startsOpen || (set & openers) !== 0;
      if (opened && (gap.staysOpen || (closers & ~set) !== 0)) costs.openGaps[s] = (costs.openGaps[s] as number) + 1;
    }
  }
  return costs;
}

function fillRegion(region: RegionClass, r: number, sets: Int32Array, costs: StateCosts): void {
  const { kept, before, after, weight, entries } = region;
  const bits = Int32Array.from(entries, ({ operation }) => 1 << operation);
  const wanted = Int32Array.from(entries, ({ operation, added }) => (added ? 1 << operation : 0));
  const accepts = Uint8Array.from(entries, ({ rank }) => Number(rank % 2 === 0));
  const otherwise = Number(kept % 2 === 0);
  const word = r >>> 5;
  const bit = 1 << (r & 31);
  const counts = before === after ? (before ? costs.cutOff : costs.opened) : null;
  for (let s = 0; s < sets.length; s++) {
    const set = sets[s] as number;
    let verdict = otherwise;
    for (let e = 0; e < bits.length; e++) {
      if ((set & (bits[e] as number)) === wanted[e]) {
        verdict = accepts[e] as number;
        break;
      }
    }
    if (verdict === 1)
      costs.verdicts[s * costs.words + word] = (costs.verdicts[s * costs.words + word] as number) | bit;
    if (counts !== null && (verdict === 1) !== before) counts[s] = (counts[s] as number) + weight;
  }
}

function maskOf(operations: readonly number[]): number {
  return operations.reduce((mask, operation) => mask | (1 << operation), 0);
}

const noCost: Cost = { opened: 0, cutOff: 0, changes: 0, openGaps: 0 };

/** By state: the operation with which the cheapest way on begins, the first in canonical order among equals. */
function cheapestSteps(ordering: Ordering, { sets, indexOf, needs }: Lattice, costs: StateCosts): Int32Array {
  const last = sets.length - 1;
  const steps = new Int32Array(sets.length);
  const rest = new Array<Cost>(sets.length).fill(noCost);
  for (let from = last - 1; from >= 0; from--) {
    const set = sets[from] as number;
    let best: Cost | null = null;
    for (let i = 0; i < ordering.size; i++) {
      if ((set >>> i) & 1 || ((needs[i] as number) & ~set) !== 0) continue;
      const to = indexOf.get(set | (1 << i)) as number;
      const later = rest[to] as Cost;
      const opened = (costs.opened[to] as number) + later.opened;
      const cutOff = (costs.cutOff[to] as number) + later.cutOff;
      if (best !== null && (opened - best.opened || cutOff - best.cutOff) > 0) continue;
      const changes = changesBetween(costs, from, to) + later.changes;
      const found: Cost = { opened, cutOff, changes, openGaps: (costs.openGaps[to] as number) + later.openGaps };
      if (best !== null && compareCosts(found, best) >= 0) continue;
      best = found;
      steps[from] = i;
    }
    rest[from] = best ?? noCost;
  }
  return steps;
}

function changesBetween({ verdicts, words, weights }: StateCosts, from: number, to: number): number {
  let changes = 0;
  for (let w = 0; w < words; w++) {
    let bits = (verdicts[from * words + w] as number) ^ (verdicts[to * words + w] as number);
    while (bits !== 0) {
      const bit = 31 - Math.clz32(bits & -bits);
      changes += weights[w * 32 + bit] as number;
      bits &= bits - 1;
    }
  }
  return changes;
}
