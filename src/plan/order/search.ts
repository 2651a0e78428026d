import { solveExactly } from './exact.ts';
import { type Cost, compareCosts, formatClassKey, type GapGroup, type Ordering, type RegionClass } from './ordering.ts';
import { isUnbeatable, measureCost, prepareWalk, type Walkable } from './walk.ts';

/** Up to this many operations get the optimum in any case: at most 2^14 states. */
export const alwaysExact = 14;

/** More states than this are never held at once. */
const mostStates = 1 << 17;

/** How much all searches of a plan may look at, in regions weighed: bounds time without a clock. About 10 million a second. */
export const searchEffort = 8_000_000;

/** The optimum for up to 14 operations, or few states; else what windows make of the cheaper start. Canonical order must be valid. */
export function findOrder(ordering: Ordering, effort: number): readonly number[] {
  const canonical = Array.from({ length: ordering.size }, (_, operation) => operation);
  const canonicalCost = measureCost(ordering, canonical);
  if (isUnbeatable(ordering, canonicalCost)) return canonical;
  const affordable = Math.min(mostStates, Math.floor(effort / Math.max(1, ordering.regions.length)));
  const exact = solveExactly(ordering, ordering.size <= alwaysExact ? mostStates : affordable);
  if (exact !== null) return exact;
  const late = putGapsLast(ordering);
  const isCheaper = isValid(ordering, late) && compareCosts(measureCost(ordering, late), canonicalCost) < 0;
  return searchOrder(ordering, isCheaper ? late : canonical, effort);
}

/** Canonical order but for the gaps, which come last, one after the other: as users' deletes do where nothing collides. */
function putGapsLast(ordering: Ordering): readonly number[] {
  const { gapOf } = prepareWalk(ordering);
  return [...gapOf.keys()].sort((a, b) => (gapOf[a] as number) - (gapOf[b] as number) || a - b);
}

/** Windows of 8 operations get their best order; then single operations move by up to 16 places (docs/adr/0006). */
export function searchOrder(ordering: Ordering, canonical: readonly number[], effort: number): readonly number[] {
  const order = [...canonical];
  const walk = prepareWalk(ordering);
  /** Windows of which no better order is known, by place and content: they are not looked at again. */
  const settled = new Set<string>();
  let left = effort;
  const improveWindow = (now: readonly number[], { improve, weighs }: Pass, done: ReadonlySet<number>) => {
    const window = now.toSorted((a, b) => a - b);
    const inner = windowOrdering(walk, done, window);
    const current = now.map((operation) => window.indexOf(operation));
    const cost = measureCost(inner, current);
    left -= now.reduce((sum, operation) => sum + (walk.regionsOf[operation]?.length ?? 0), now.length);
    if (isUnbeatable(inner, cost)) return null;
    left -= inner.regions.length * weighs;
    return improve(inner, current, cost)?.map((index) => window[index] as number) ?? null;
  };
  /** Whether any window got a better order. */
  const run = (pass: Pass, first: number): boolean => {
    const done = new Set(order.slice(0, first));
    let improved = false;
    for (let from = first; from + 1 < order.length && left > 0; from += pass.stride) {
      const now = order.slice(from, from + pass.width);
      const place = `${from} ${now.join()}`;
      if (!settled.has(place)) {
        const better = improveWindow(now, pass, done);
        if (better === null) settled.add(place);
        else order.splice(from, now.length, ...better);
        improved ||= better !== null;
      }
      for (const operation of order.slice(from, from + pass.stride)) done.add(operation);
    }
    return improved;
  };
  for (let pass = 0, idle = 0; idle < 2 && left > 0; pass++) {
    const better = run(reordering, 2 * (pass % 2)) || run(moves, 0);
    idle = better ? 0 : idle + 1;
  }
  return order;
}

/** Looks at windows of `width` operations, `stride` apart, for a better order of each. */
interface Pass {
  readonly width: number;
  readonly stride: number;
  /** A cheaper order than `now`, which costs `cost`; null without one. */
  readonly improve: (inner: Ordering, now: readonly number[], cost: Cost) => readonly number[] | null;
  /** How many orders or states it weighs. */
  readonly weighs: number;
}

const reordering: Pass = { width: 8, stride: 4, improve: reorderExactly, weighs: 2 ** 8 };
const moves: Pass = { width: 16, stride: 1, improve: moveOne, weighs: 2 * 15 };

function reorderExactly(inner: Ordering, _: readonly number[], cost: Cost): readonly number[] | null {
  const best = solveExactly(inner, mostStates);
  return best !== null && compareCosts(measureCost(inner, best), cost) < 0 ? best : null;
}

/** The best of all moves of the first operation to a later place, or of a later one to the first. */
function moveOne(inner: Ordering, now: readonly number[], cost: Cost): readonly number[] | null {
  let best: { readonly order: readonly number[]; readonly cost: Cost } | null = null;
  for (let place = 1; place < now.length; place++) {
    const [first, between, moved] = [now.slice(0, 1), now.slice(1, place), now.slice(place, place + 1)];
    const rest = now.slice(place + 1);
    for (const order of [
      [...between, ...moved, ...first, ...rest],
      [...moved, ...first, ...between, ...rest],
    ]) {
      if (!isValid(inner, order)) continue;
      const found = measureCost(inner, order);
      if (compareCosts(found, best?.cost ?? cost) < 0) best = { order, cost: found };
    }
  }
  return best?.order ?? null;
}

function isValid({ needs }: Ordering, order: readonly number[]): boolean {
  const done = new Set<number>();
  return order.every((operation) => {
    done.add(operation);
    return (needs[operation] ?? []).every((need) => done.has(need));
  });
}

/** The ordering of some operations alone: those in `done` are done, all others come later. */
function windowOrdering(walk: Walkable, done: ReadonlySet<number>, window: readonly number[]): Ordering {
  const { needs, gaps: all, regions } = walk.ordering;
  const local = new Map(window.map((operation, index) => [operation, index]));
  const touched = new Set(window.flatMap((operation) => walk.regionsOf[operation] ?? []));
  const gaps = new Set(window.map((operation) => walk.gapOf[operation] ?? -1).filter((gap) => gap >= 0));
  return {
    size: window.length,
    needs: window.map((operation) => (needs[operation] ?? []).flatMap((other) => local.get(other) ?? [])),
    gaps: [...gaps].map((gap) => windowGap(all[gap] as GapGroup, done, local)),
    regions: mergeRegions([...touched].map((index) => windowRegion(regions[index] as RegionClass, done, local))),
  };
}

function windowGap(
  { openers, closers, startsOpen, staysOpen }: GapGroup,
  done: ReadonlySet<number>,
  local: ReadonlyMap<number, number>,
): GapGroup {
  const here = (operations: readonly number[]): readonly number[] => operations.flatMap((one) => local.get(one) ?? []);
  return {
    openers: here(openers),
    closers: here(closers),
    startsOpen: startsOpen || openers.some((one) => done.has(one)),
    staysOpen: staysOpen || !closers.every((one) => done.has(one) || local.has(one)),
  };
}

function windowRegion(region: RegionClass, isDone: ReadonlySet<number>, local: ReadonlyMap<number, number>) {
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

/** Regions that differ outside the window alone are one there. */
function mergeRegions(regions: readonly RegionClass[]): readonly RegionClass[] {
  const merged = new Map<string, RegionClass>();
  for (const region of regions) {
    if (region.entries.length === 0) continue;
    const key = `${region.before} ${region.after} ${formatClassKey(region.kept, region.entries)}`;
    const known = merged.get(key);
    merged.set(key, known === undefined ? region : { ...known, weight: known.weight + region.weight });
  }
  return [...merged.values()];
}
