import { solveExactly } from './exact.ts';
import { type Cost, compareCosts, type GapGroup, type Ordering, type RegionClass } from './ordering.ts';
import {
  costOf,
  costOfStep,
  isReady,
  isUnbeatable,
  type Position,
  startOf,
  take,
  type Walkable,
  walkable,
} from './walk.ts';

/** Up to this many reachable states the optimum is found; any component of 14 operations has at most 2^14. */
const exactStates = 1 << 17;

/** How much the search may look at, in steps weighed: bounds its time without looking at a clock. */
const effort = 400_000;

/**
 * An order of least cost: the optimum where few enough states can be reached; else the best of canonical order, a beam search,
 * and what moving operations inside small windows makes of them. Never worse than canonical order, which must be valid.
 */
export function findOrder(ordering: Ordering): readonly number[] {
  const canonical = Array.from({ length: ordering.size }, (_, operation) => operation);
  if (isUnbeatable(ordering, costOf(ordering, canonical))) return canonical;
  return solveExactly(ordering, exactStates) ?? searchOrder(ordering, canonical);
}

/** The order for components too large for the optimum. */
export function searchOrder(ordering: Ordering, canonical: readonly number[]): readonly number[] {
  const found = [improve(ordering, canonical)];
  const width = Math.min(48, Math.floor(effort / ordering.size ** 2));
  if (width >= 2) found.push(improve(ordering, beam(walkable(ordering), width)));
  const costs = found.map((order) => costOf(ordering, order));
  return found.reduce((best, order, i) => {
    const [mine, least] = [costs[i] as Cost, costs[found.indexOf(best)] as Cost];
    return compareCosts(mine, least) < 0 ? order : best;
  });
}

interface Beamed {
  readonly position: Position;
  readonly order: readonly number[];
  readonly hash: number;
}

/** Keeps the `width` cheapest sets of each size, each with the cheapest way there that was found. */
function beam(walk: Walkable, width: number): readonly number[] {
  const { size } = walk.ordering;
  const marks = Array.from({ length: size }, (_, i) => mark(i));
  let kept: readonly Beamed[] = [{ position: startOf(walk), order: [], hash: 0 }];
  for (let count = 0; count < size; count++) {
    const next = new Map<number, { from: Beamed; operation: number; total: Cost }>();
    for (const from of kept) {
      for (let operation = 0; operation < size; operation++) {
        if (!isReady(walk.ordering, from.position.done, operation)) continue;
        const { total } = costOfStep(walk, from.position, operation);
        const hash = from.hash + (marks[operation] as number);
        const known = next.get(hash);
        if (known === undefined || compareCosts(total, known.total) < 0) next.set(hash, { from, operation, total });
      }
    }
    kept = [...next]
      .sort(([, a], [, b]) => compareCosts(a.total, b.total))
      .slice(0, width)
      .map(([hash, { from, operation }]) => ({
        position: take(walk, from.position, operation),
        order: [...from.order, operation],
        hash,
      }));
  }
  return kept[0]?.order ?? [];
}

/** A fixed, scattered number for an operation; sums of them tell sets apart. */
function mark(operation: number): number {
  const high = Math.imul(operation + 1, 0x9e3779b1) >>> 0;
  const low = Math.imul(operation + 1, 0x85ebca6b) ^ (high >>> 15);
  return high * 0x10000 + ((low >>> 0) & 0xffff);
}

/** Puts the operations of each window into their best order, again and again while that helps. */
function improve(ordering: Ordering, initial: readonly number[]): readonly number[] {
  const width = ordering.size <= 200 ? 10 : 6;
  const walk = walkable(ordering);
  const order = [...initial];
  let budget = effort / 2 ** width;
  for (let improved = true; improved && budget > 0; ) {
    const before = costOf(ordering, order);
    for (let from = 0; from + 1 < order.length && budget > 0; from += width / 2, budget--) {
      const window = order.slice(from, from + width).sort((a, b) => a - b);
      const inner = windowOrdering(walk, order.slice(0, from), window);
      const best = solveExactly(inner, 1 << width);
      if (best !== null) order.splice(from, window.length, ...best.map((index) => window[index] as number));
    }
    improved = compareCosts(costOf(ordering, order), before) < 0;
  }
  return order;
}

/** The ordering of some operations alone: those in `done` are done, all others come later. */
function windowOrdering(walk: Walkable, done: readonly number[], window: readonly number[]): Ordering {
  const isDone = new Set(done);
  const local = new Map(window.map((operation, index) => [operation, index]));
  const touched = new Set(window.flatMap((operation) => walk.regionsOf[operation] ?? []));
  const gaps = new Set(window.map((operation) => walk.gapOf[operation] ?? -1).filter((gap) => gap >= 0));
  const here = (operations: readonly number[]): number[] => operations.flatMap((other) => local.get(other) ?? []);
  return {
    size: window.length,
    needs: window.map((operation) => here(walk.ordering.needs[operation] ?? [])),
    gaps: [...gaps].map((gap) => {
      const { openers, closers, startsOpen, staysOpen } = walk.ordering.gaps[gap] as GapGroup;
      return {
        openers: here(openers),
        closers: here(closers),
        startsOpen: startsOpen || openers.some((other) => isDone.has(other)),
        staysOpen: staysOpen || closers.some((other) => !isDone.has(other) && !local.has(other)),
      };
    }),
    regions: [...touched].map((index) => windowRegion(walk.ordering.regions[index] as RegionClass, isDone, local)),
  };
}

function windowRegion(
  region: RegionClass,
  isDone: ReadonlySet<number>,
  local: ReadonlyMap<number, number>,
): RegionClass {
  let kept = region.kept;
  const entries = [];
  for (const entry of region.entries) {
    if (entry.rank > kept) break;
    const operation = local.get(entry.operation);
    if (operation !== undefined) entries.push({ ...entry, operation });
    else if (isDone.has(entry.operation) === entry.added) kept = Math.min(kept, entry.rank);
  }
  return { ...region, kept, entries };
}
