import type { Ordering, RegionClass } from './ordering.ts';

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
  const costs = stateCosts(ordering, lattice.sets);
  const rest = costsToGo(ordering, lattice, costs);
  return cheapestPath(ordering, lattice, costs, rest);
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

/** By state: the cheapest cost of all that is still to come; and of one step more, by `stepCost`. */
interface CostsToGo {
  readonly opened: Float64Array;
  readonly cutOff: Float64Array;
  readonly changes: Float64Array;
  readonly openGaps: Float64Array;
}

function costsToGo(ordering: Ordering, lattice: Lattice, costs: StateCosts): CostsToGo {
  const count = lattice.sets.length;
  const rest = {
    opened: new Float64Array(count).fill(Number.POSITIVE_INFINITY),
    cutOff: new Float64Array(count),
    changes: new Float64Array(count),
    openGaps: new Float64Array(count),
  };
  rest.opened[count - 1] = 0;
  for (let from = count - 2; from >= 0; from--) {
    eachNext(ordering, lattice, from, (_, to) => {
      const opened = (costs.opened[to] as number) + (rest.opened[to] as number);
      const cutOff = (costs.cutOff[to] as number) + (rest.cutOff[to] as number);
      const best = rest.opened[from] as number;
      if (opened > best || (opened === best && cutOff > (rest.cutOff[from] as number))) return false;
      const changes = changesBetween(costs, from, to) + (rest.changes[to] as number);
      const openGaps = (costs.openGaps[to] as number) + (rest.openGaps[to] as number);
      const better =
        opened - best ||
        cutOff - (rest.cutOff[from] as number) ||
        changes - (rest.changes[from] as number) ||
        openGaps - (rest.openGaps[from] as number);
      if (better >= 0) return false;
      rest.opened[from] = opened;
      rest.cutOff[from] = cutOff;
      rest.changes[from] = changes;
      rest.openGaps[from] = openGaps;
      return false;
    });
  }
  return rest;
}

function cheapestPath(ordering: Ordering, lattice: Lattice, costs: StateCosts, rest: CostsToGo): readonly number[] {
  const order: number[] = [];
  for (let at = 0; order.length < ordering.size; ) {
    const from = at;
    eachNext(ordering, lattice, from, (operation, to) => {
      const cheapest =
        (costs.opened[to] as number) + (rest.opened[to] as number) === rest.opened[from] &&
        (costs.cutOff[to] as number) + (rest.cutOff[to] as number) === rest.cutOff[from] &&
        changesBetween(costs, from, to) + (rest.changes[to] as number) === rest.changes[from] &&
        (costs.openGaps[to] as number) + (rest.openGaps[to] as number) === rest.openGaps[from];
      if (!cheapest) return false;
      order.push(operation);
      at = to;
      return true;
    });
    if (at === from) throw new Error('operations need each other in a circle');
  }
  return order;
}

/** Visits each state one operation further, in canonical order, until `visit` returns true. */
function eachNext(
  { size }: Ordering,
  { sets, indexOf, needs }: Lattice,
  from: number,
  visit: (operation: number, to: number) => boolean,
): void {
  const set = sets[from] as number;
  for (let i = 0; i < size; i++) {
    if ((set >>> i) & 1 || ((needs[i] as number) & ~set) !== 0) continue;
    if (visit(i, indexOf.get(set | (1 << i)) as number)) return;
  }
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
