import { solveExactly } from './exact.ts';
import { type Cost, compareCosts, type GapGroup, type Ordering, type RegionClass } from './ordering.ts';
import {
  costOf,
  costOfStep,
  countDone,
  type GapCounts,
  isReady,
  isUnbeatable,
  noGapCounts,
  type Position,
  startOf,
  take,
  type Walkable,
  walkable,
} from './walk.ts';

/** Up to this many operations get the optimum in any case: at most 2^14 states. */
export const alwaysExact = 14;

/** More states than this are never held at once. */
const mostStates = 1 << 17;

/**
 * How much all searches of a plan together may look at, in regions weighed in a state: bounds their time without a clock, so
 * that equal inputs give equal plans. About 10 million a second.
 */
export const searchEffort = 30_000_000;

/**
 * An order of least cost: the optimum for up to 14 operations, and for more where few enough states can be reached; else
 * the best of canonical order, a beam search, and what moving operations inside small windows makes of them. Never worse
 * than canonical order, which must be valid.
 */
export function findOrder(ordering: Ordering, effort: number): readonly number[] {
  const canonical = Array.from({ length: ordering.size }, (_, operation) => operation);
  if (isUnbeatable(ordering, costOf(ordering, canonical))) return canonical;
  const affordable = Math.min(mostStates, Math.floor(effort / Math.max(1, ordering.regions.length)));
  const exact = solveExactly(ordering, ordering.size <= alwaysExact ? mostStates : affordable);
  return exact ?? searchOrder(ordering, canonical, effort);
}

/** The order for components too large for the optimum. */
export function searchOrder(ordering: Ordering, canonical: readonly number[], effort: number): readonly number[] {
  const walk = walkable(ordering);
  const entries = walk.regionsOf.reduce((sum, list) => sum + list.length, ordering.size);
  const width = Math.min(48, Math.floor(effort / 2 / (entries * ordering.size)));
  const found = [improve(walk, canonical, effort / 2)];
  if (width >= 2) found.push(improve(walk, beam(walk, width), effort / 2));
  const costs = found.map((order) => costOf(ordering, order));
  const [first, second] = costs as [Cost, Cost?];
  const better = second !== undefined && compareCosts(second, first) < 0 ? found[1] : found[0];
  return better ?? canonical;
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
function improve(walk: Walkable, initial: readonly number[], effort: number): readonly number[] {
  const { ordering } = walk;
  const width = ordering.size <= 200 ? 10 : 6;
  const order = [...initial];
  let left = effort;
  for (let improved = true; improved && left > 0; ) {
    improved = false;
    const done = { operations: new Set<number>(), gaps: noGapCounts(walk) };
    for (let from = 0; from + 1 < order.length && left > 0; from += width / 2) {
      const now = order.slice(from, from + width);
      const window = now.toSorted((a, b) => a - b);
      const inner = windowOrdering(walk, done, window);
      const cost = costOf(
        inner,
        now.map((operation) => window.indexOf(operation)),
      );
      left -= inner.regions.length + width;
      if (!isUnbeatable(inner, cost)) {
        left -= inner.regions.length << Math.min(width, window.length);
        const best = solveExactly(inner, 1 << width) ?? [];
        if (compareCosts(costOf(inner, best), cost) < 0) {
          improved = true;
          order.splice(from, window.length, ...best.map((index) => window[index] as number));
        }
      }
      for (const operation of order.slice(from, from + width / 2)) {
        done.operations.add(operation);
        countDone(walk, done.gaps, operation);
      }
    }
  }
  return order;
}

interface Done {
  readonly operations: ReadonlySet<number>;
  readonly gaps: GapCounts;
}

/** The ordering of some operations alone: those in `done` are done, all others come later. */
function windowOrdering(walk: Walkable, done: Done, window: readonly number[]): Ordering {
  const local = new Map(window.map((operation, index) => [operation, index]));
  const touched = new Set(window.flatMap((operation) => walk.regionsOf[operation] ?? []));
  const gaps = new Set(window.map((operation) => walk.gapOf[operation] ?? -1).filter((gap) => gap >= 0));
  return {
    size: window.length,
    needs: window.map((operation) => (walk.ordering.needs[operation] ?? []).flatMap((other) => local.get(other) ?? [])),
    gaps: [...gaps].map((gap) => windowGap(walk, gap, done, window)),
    regions: [...touched].map((index) =>
      windowRegion(walk.ordering.regions[index] as RegionClass, done.operations, local),
    ),
  };
}

function windowGap(walk: Walkable, gap: number, { gaps }: Done, window: readonly number[]): GapGroup {
  const { closers, startsOpen, staysOpen } = walk.ordering.gaps[gap] as GapGroup;
  const here = (flags: Uint8Array): number[] =>
    [...window.keys()].filter((index) => {
      const operation = window[index] as number;
      return walk.gapOf[operation] === gap && flags[operation] === 1;
    });
  const own = { openers: here(walk.opens), closers: here(walk.closes) };
  return {
    ...own,
    startsOpen: startsOpen || (gaps.opened[gap] as number) > 0,
    staysOpen: staysOpen || (gaps.closed[gap] as number) + own.closers.length < closers.length,
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
