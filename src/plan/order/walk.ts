import { type Cost, getVerdictIn, indexRegions, isOpen, type Ordering, type RegionClass } from './ordering.ts';

export type Walkable = ReturnType<typeof prepareWalk>;

/** An ordering with what every walk through it looks up, by operation: its regions, and the index of its gap, or -1. */
export function prepareWalk(ordering: Ordering) {
  const gapOf = new Array<number>(ordering.size).fill(-1);
  for (const [gap, { openers, closers }] of ordering.gaps.entries()) {
    for (const operation of [...openers, ...closers]) gapOf[operation] = gap;
  }
  return { ordering, regionsOf: indexRegions(ordering), gapOf };
}

/** What an order costs: what is wrong after each operation. All verdict changes are counted: what no order avoids is the same for each. */
export function measureCost(ordering: Ordering, order: readonly number[]): Cost {
  const { regions, gaps } = ordering;
  const { regionsOf, gapOf } = prepareWalk(ordering);
  const done = new Uint8Array(ordering.size);
  const isDone = (operation: number): boolean => done[operation] === 1;
  const verdicts = regions.map((region) => getVerdictIn(region, isDone));
  const here = { opened: 0, cutOff: 0 };
  const count = (index: number, weight: number): void => {
    const { before, after } = regions[index] as RegionClass;
    if (before !== after || verdicts[index] === before) return;
    here[before ? 'cutOff' : 'opened'] += weight;
  };
  for (const [index, { weight }] of regions.entries()) count(index, weight);
  let openNow = gaps.filter((gap) => isOpen(gap, isDone)).length;
  let [opened, cutOff, changes, openGaps] = [0, 0, 0, 0];
  for (const operation of order) {
    const gap = gaps[gapOf[operation] as number];
    if (gap !== undefined) openNow -= Number(isOpen(gap, isDone));
    done[operation] = 1;
    if (gap !== undefined) openNow += Number(isOpen(gap, isDone));
    for (const index of regionsOf[operation] ?? []) {
      const region = regions[index] as RegionClass;
      const verdict = getVerdictIn(region, isDone);
      if (verdict === verdicts[index]) continue;
      count(index, -region.weight);
      verdicts[index] = verdict;
      count(index, region.weight);
      changes += region.weight;
    }
    opened += here.opened;
    cutOff += here.cutOff;
    openGaps += openNow;
  }
  return { opened, cutOff, changes, openGaps };
}

/** Whether no order can be cheaper: nothing exposed, no surplus change, and each gap in one piece. */
export function isUnbeatable(ordering: Ordering, cost: Cost): boolean {
  let changes = 0;
  for (const { before, after, weight } of ordering.regions) if (before !== after) changes += weight;
  let openGaps = 0;
  for (const { openers, closers } of ordering.gaps) openGaps += new Set([...openers, ...closers]).size - 1;
  return cost.opened === 0 && cost.cutOff === 0 && cost.changes <= changes && cost.openGaps <= openGaps;
}
