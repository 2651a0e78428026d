import { addCosts, type Cost, type GapGroup, getVerdictIn, indexRegions, noCost, type Ordering } from './ordering.ts';

/** An ordering with what every walk through it looks up, by operation. */
export interface Walkable {
  readonly ordering: Ordering;
  readonly regionsOf: readonly (readonly number[])[];
  /** The index of its gap, or -1. */
  readonly gapOf: readonly number[];
}

export function prepareWalk(ordering: Ordering): Walkable {
  const gapOf = new Array<number>(ordering.size).fill(-1);
  for (const [gap, { openers, closers }] of ordering.gaps.entries()) {
    for (const operation of [...openers, ...closers]) gapOf[operation] = gap;
  }
  return { ordering, regionsOf: indexRegions(ordering), gapOf };
}

/** Whether the gap is open when exactly the operations for which `done` holds are done. */
function isOpen({ startsOpen, staysOpen, openers, closers }: GapGroup, done: (operation: number) => boolean): boolean {
  return (startsOpen || openers.some(done)) && (staysOpen || !closers.every(done));
}

/** A state on the way and what the way there cost. */
interface Position {
  readonly done: Uint8Array;
  /** By region class: 1 accepts. */
  readonly verdicts: Uint8Array;
  /** What this very state costs: added once for it, and for every state in which it does not change. */
  readonly here: Cost;
  readonly total: Cost;
}

/** Where every order begins: nothing done; the first state itself costs nothing. */
function startOf({ ordering }: Walkable): Position {
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
  const openGaps = ordering.gaps.filter((gap) => isOpen(gap, nothing)).length;
  return { done, verdicts, here: { opened, cutOff, changes: 0, openGaps }, total: noCost };
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
  const gap = gaps[walk.gapOf[operation] as number];
  if (gap !== undefined) openGaps += Number(isOpen(gap, after)) - Number(isOpen(gap, (other) => at.done[other] === 1));
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
