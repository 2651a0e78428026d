import { addCosts, type Cost, isOpen, noCost, type Ordering, regionsByOperation, verdictIn } from './ordering.ts';

/** An ordering with what every walk through it looks up. */
export interface Walkable {
  readonly ordering: Ordering;
  readonly regionsOf: readonly (readonly number[])[];
  readonly gapOf: readonly number[];
}

export function walkable(ordering: Ordering): Walkable {
  const gapOf = new Array<number>(ordering.size).fill(-1);
  for (const [gap, { openers, closers }] of ordering.gaps.entries()) {
    for (const operation of [...openers, ...closers]) gapOf[operation] = gap;
  }
  return { ordering, regionsOf: regionsByOperation(ordering), gapOf };
}

/** A state on the way and what the way there cost. */
export interface Position {
  readonly done: Uint8Array;
  /** By region class: 1 accepts. */
  readonly verdicts: Uint8Array;
  /** What this very state costs: added once for it, and for every state in which it does not change. */
  readonly here: Cost;
  readonly total: Cost;
}

/** Where every order begins: nothing done; the first state itself costs nothing. */
export function startOf({ ordering }: Walkable): Position {
  const done = new Uint8Array(ordering.size);
  const nothing = (): boolean => false;
  const verdicts = Uint8Array.from(ordering.regions, (region) => Number(verdictIn(region, nothing)));
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
export function costOfStep(
  walk: Walkable,
  at: Position,
  operation: number,
): { readonly here: Cost; readonly total: Cost } {
  const { regions, gaps } = walk.ordering;
  let { opened, cutOff, openGaps } = at.here;
  let changes = 0;
  const before = (other: number): boolean => at.done[other] === 1;
  const after = (other: number): boolean => other === operation || at.done[other] === 1;
  for (const index of walk.regionsOf[operation] ?? []) {
    const region = regions[index];
    if (region === undefined) continue;
    const accepts = verdictIn(region, after);
    if (accepts === (at.verdicts[index] === 1)) continue;
    changes += region.weight;
    if (region.before !== region.after) continue;
    const sign = accepts === region.before ? -1 : 1;
    if (region.before) cutOff += sign * region.weight;
    else opened += sign * region.weight;
  }
  const gap = gaps[walk.gapOf[operation] ?? -1];
  if (gap !== undefined) openGaps += Number(isOpen(gap, after)) - Number(isOpen(gap, before));
  const here = { opened, cutOff, changes: 0, openGaps };
  return { here, total: addCosts(at.total, { ...here, changes }) };
}

/** The position after one more operation, in new arrays. */
export function take(walk: Walkable, at: Position, operation: number): Position {
  const costs = costOfStep(walk, at, operation);
  const done = at.done.slice();
  const verdicts = at.verdicts.slice();
  done[operation] = 1;
  const isDone = (other: number): boolean => done[other] === 1;
  for (const index of walk.regionsOf[operation] ?? []) {
    const region = walk.ordering.regions[index];
    if (region !== undefined) verdicts[index] = Number(verdictIn(region, isDone));
  }
  return { done, verdicts, ...costs };
}

/** What an order costs. The surplus is counted as all verdict changes: what no order can avoid is the same for every one. */
export function costOf(ordering: Ordering, order: readonly number[]): Cost {
  const walk = walkable(ordering);
  return order.reduce((at, operation) => takeInPlace(walk, at, operation), startOf(walk)).total;
}

/** As `take`, in the position's own arrays. */
function takeInPlace(walk: Walkable, at: Position, operation: number): Position {
  const costs = costOfStep(walk, at, operation);
  at.done[operation] = 1;
  const isDone = (other: number): boolean => at.done[other] === 1;
  for (const index of walk.regionsOf[operation] ?? []) {
    const region = walk.ordering.regions[index];
    if (region !== undefined) at.verdicts[index] = Number(verdictIn(region, isDone));
  }
  return { done: at.done, verdicts: at.verdicts, ...costs };
}

/** Whether everything that the operation needs is done. */
export function isReady(ordering: Ordering, done: Uint8Array, operation: number): boolean {
  return done[operation] === 0 && (ordering.needs[operation] ?? []).every((need) => done[need] === 1);
}

/** Whether no order can be cheaper: nothing exposed, no surplus change, and each gap in one piece. */
export function isUnbeatable(ordering: Ordering, cost: Cost): boolean {
  let changes = 0;
  for (const { before, after, weight } of ordering.regions) if (before !== after) changes += weight;
  let openGaps = 0;
  for (const { openers, closers } of ordering.gaps) openGaps += new Set([...openers, ...closers]).size - 1;
  return cost.opened === 0 && cost.cutOff === 0 && cost.changes <= changes && cost.openGaps <= openGaps;
}
