import { type Cost, compareCosts, indexRegions, isOpen, type Ordering, type RegionClass } from './ordering.ts';

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

/** Every set that respects the needs, by size, and its index by set; with the needs of each operation as a set. Null: more than `limit`. */
function reachable({ size, needs }: Ordering, limit: number) {
  const masks = needs.map((list) => list.reduce((mask, need) => mask | (1 << need), 0));
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
  return { sets, indexOf, needs: masks };
}

/** What is wrong in each state, and by region class whether it is accepted there. */
function stateCosts({ regions, gaps }: Ordering, sets: readonly number[]) {
  const opened = new Float64Array(sets.length);
  const cutOff = new Float64Array(sets.length);
  const verdicts = regions.map((region) => {
    const accepted = listVerdicts(region, sets);
    const { before, after, weight } = region;
    const wrong = before ? cutOff : opened;
    if (before === after) {
      for (let s = 0; s < sets.length; s++)
        if (accepted[s] !== Number(before)) wrong[s] = (wrong[s] as number) + weight;
    }
    return accepted;
  });
  const openGaps = sets.map((set) => {
    return gaps.filter((gap) => isOpen(gap, (operation) => ((set >>> operation) & 1) === 1)).length;
  });
  return { opened, cutOff, openGaps, verdicts };
}

/** By state, 1 where the region is accepted. Much faster than to ask `getVerdictIn` for each. */
function listVerdicts({ kept, entries }: RegionClass, sets: readonly number[]): Uint8Array {
  const bits = Int32Array.from(entries, ({ operation }) => 1 << operation);
  const wanted = Int32Array.from(entries, ({ operation, added }) => (added ? 1 << operation : 0));
  const accepts = Uint8Array.from([...entries, { rank: kept }], ({ rank }) => Number(rank % 2 === 0));
  const verdicts = new Uint8Array(sets.length);
  for (let s = 0; s < sets.length; s++) {
    let e = 0;
    while (e < bits.length && ((sets[s] as number) & (bits[e] as number)) !== wanted[e]) e++;
    verdicts[s] = accepts[e] as number;
  }
  return verdicts;
}

const noCost: Cost = { opened: 0, cutOff: 0, changes: 0, openGaps: 0 };

/** By state: the operation with which the cheapest way on begins, the first in canonical order among equals. */
function cheapestSteps(
  ordering: Ordering,
  { sets, indexOf, needs }: NonNullable<ReturnType<typeof reachable>>,
  costs: ReturnType<typeof stateCosts>,
): Int32Array {
  const last = sets.length - 1;
  const steps = new Int32Array(sets.length);
  const rest = new Array<Cost>(sets.length).fill(noCost);
  const regionsOf = indexRegions(ordering);
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
      let { changes } = later;
      for (const region of regionsOf[i] as readonly number[]) {
        const verdicts = costs.verdicts[region] as Uint8Array;
        if (verdicts[from] !== verdicts[to]) changes += (ordering.regions[region] as RegionClass).weight;
      }
      const found: Cost = { opened, cutOff, changes, openGaps: (costs.openGaps[to] as number) + later.openGaps };
      if (best !== null && compareCosts(found, best) >= 0) continue;
      best = found;
      steps[from] = i;
    }
    rest[from] = best ?? noCost;
  }
  return steps;
}
