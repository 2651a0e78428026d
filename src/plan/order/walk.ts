import { addCosts, type Cost, type GapGroup, getVerdictIn, indexRegions, noCost, type Ordering } from './ordering.ts';

/** An ordering with what every walk through it looks up. */
export interface Walkable {
  readonly ordering: Ordering;
  readonly regionsOf: readonly (readonly number[])[];
  readonly gapOf: readonly number[];
  /** By operation: 1 when it is an opener (or a closer) of its gap. */
  readonly opens: Uint8Array;
  readonly closes: Uint8Array;
}

export function prepareWalk(ordering: Ordering): Walkable {
  const gapOf = new Array<number>(ordering.size).fill(-1);
  const opens = new Uint8Array(ordering.size);
  const closes = new Uint8Array(ordering.size);
  for (const [gap, { openers, closers }] of ordering.gaps.entries()) {
    for (const operation of [...openers, ...closers]) gapOf[operation] = gap;
    for (const operation of openers) opens[operation] = 1;
    for (const operation of closers) closes[operation] = 1;
  }
  return { ordering, regionsOf: indexRegions(ordering), gapOf, opens, closes };
}

/** By gap: how many of its openers and closers are done. */
export interface GapCounts {
  readonly opened: Int32Array;
  readonly closed: Int32Array;
}

/** Nothing done. */
export function startGapCounts({ ordering }: Walkable): GapCounts {
  return { opened: new Int32Array(ordering.gaps.length), closed: new Int32Array(ordering.gaps.length) };
}

/** Counts one more operation as done. */
export function countDone({ gapOf, opens, closes }: Walkable, counts: GapCounts, operation: number): void {
  const gap = gapOf[operation] as number;
  if (gap < 0) return;
  counts.opened[gap] = (counts.opened[gap] as number) + (opens[operation] as number);
  counts.closed[gap] = (counts.closed[gap] as number) + (closes[operation] as number);
}

/** Whether the gap is open with so many of its openers and closers done. */
function isOpen({ startsOpen, staysOpen, closers }: GapGroup, opened: number, closed: number): boolean {
  return (startsOpen || opened > 0) && (staysOpen || closed < closers.length);
}

/** A state on the way and what the way there cost. */
interface Position {
  readonly done: Uint8Array;
  /** By region class: 1 accepts. */
  readonly verdicts: Uint8Array;
  readonly gaps: GapCounts;
  /** What this very state costs: added once for it, and for every state in which it does not change. */
  readonly here: Cost;
  readonly total: Cost;
}

/** Where every order begins: nothing done; the first state itself costs nothing. */
function startOf(walk: Walkable): Position {
  const { ordering } = walk;
  const done = new Uint8Array(ordering.size);
  const nothing = (): boolean => false;
  const verdicts = Uint8Array.from(ordering.regions, (region) => Number(getVerdictIn(region, nothing)));
  let [opened, cutOff] = [0, 0];
  for (const [index, region] of ordering.regions.entries()) {
    const accepts = verdicts[index] === 1;
    if (accepts === region.before || accepts === region.after) continue;
    if (accepts) opened += region.weight;
    else cutOff += region.weight;
  }
  const openGaps = ordering.gaps.filter((gap) => isOpen(gap, 0, 0)).length;
  return { done, verdicts, gaps: startGapCounts(walk), here: { opened, cutOff, changes: 0, openGaps }, total: noCost };
}

/** What the state after one more operation costs, and what the way to it does. Leaves the position as it is. */
function costOfStep(walk: Walkable, at: Position, operation: number): { readonly here: Cost; readonly total: Cost } {
  const { regions, gaps } = walk.ordering;
  let { opened, cutOff, openGaps } = at.here;
  let changes = 0;
  const after = (other: number): boolean => other === operation || at.done[other] === 1;
  for (const index of walk.regionsOf[operation] ?? []) {
    const region = regions[index];
    if (region === undefined) continue;
    const accepts = getVerdictIn(region, after);
    if (accepts === (at.verdicts[index] === 1)) continue;
    changes += region.weight;
    if (region.before !== region.after) continue;
    const sign = accepts === region.before ? -1 : 1;
    if (region.before) cutOff += sign * region.weight;
    else opened += sign * region.weight;
  }
  const number = walk.gapOf[operation] as number;
  const gap = gaps[number];
  if (gap !== undefined) {
    const [now, closed] = [at.gaps.opened[number] as number, at.gaps.closed[number] as number];
    const then = isOpen(gap, now + (walk.opens[operation] as number), closed + (walk.closes[operation] as number));
    openGaps += Number(then) - Number(isOpen(gap, now, closed));
  }
  const here = { opened, cutOff, changes: 0, openGaps };
  return { here, total: addCosts(at.total, { ...here, changes }) };
}

/** What an order costs. The surplus is counted as all verdict changes: what no order can avoid is the same for every one. */
export function measureCost(ordering: Ordering, order: readonly number[]): Cost {
  const walk = prepareWalk(ordering);
  return order.reduce((at, operation) => take(walk, at, operation), startOf(walk)).total;
}

/** The position after one more operation, in the arrays of the one before. */
function take(walk: Walkable, at: Position, operation: number): Position {
  const costs = costOfStep(walk, at, operation);
  at.done[operation] = 1;
  countDone(walk, at.gaps, operation);
  const isDone = (other: number): boolean => at.done[other] === 1;
  for (const index of walk.regionsOf[operation] ?? []) {
    const region = walk.ordering.regions[index];
    if (region !== undefined) at.verdicts[index] = Number(getVerdictIn(region, isDone));
  }
  return { ...at, ...costs };
}

/** Whether no order can be cheaper: nothing exposed, no surplus change, and each gap in one piece. */
export function isUnbeatable(ordering: Ordering, cost: Cost): boolean {
  let changes = 0;
  for (const { before, after, weight } of ordering.regions) if (before !== after) changes += weight;
  let openGaps = 0;
  for (const { openers, closers } of ordering.gaps) openGaps += new Set([...openers, ...closers]).size - 1;
  return cost.opened === 0 && cost.cutOff === 0 && cost.changes <= changes && cost.openGaps <= openGaps;
}
