import type { Profile } from '../../model/profile.ts';
import { listOperations, type Operation } from '../operations.ts';
import type { RuleChange } from '../plan.ts';
import { type Relations, relate } from './sharing.ts';

/** Up to this many updates in a circle the fewest replacements are found; beyond it, one by one. */
const exactUpdates = 8;

/**
 * Updates that wait for each other in a circle (two rules that swap) cannot all be done in place: some are replaced, a delete and
 * a create instead of an update, which cannot be part of a circle. Returns the indices of those, the fewest for circles of
 * up to 8 updates; among equally few, the first in the order given.
 */
export function findUpdatesToReplace(operations: readonly Operation[], { blockers }: Relations): ReadonlySet<number> {
  const replaced = new Set<number>();
  for (const circle of circles(operations, blockers)) {
    const chosen = circle.length <= exactUpdates ? fewest(circle, blockers) : greedy(circle, blockers);
    for (const update of chosen) replaced.add(update);
  }
  return replaced;
}

/** The strongly connected components of more than one operation (Tarjan's algorithm, without recursion). */
function circles(operations: readonly Operation[], blockers: readonly (readonly number[])[]): readonly number[][] {
  const count = operations.length;
  const index = new Int32Array(count).fill(-1);
  const low = new Int32Array(count);
  const onStack = new Uint8Array(count);
  const stack: number[] = [];
  const found: number[][] = [];
  let next = 0;
  const enter = (operation: number, path: { at: number; edge: number }[]): void => {
    index[operation] = low[operation] = next++;
    stack.push(operation);
    onStack[operation] = 1;
    path.push({ at: operation, edge: 0 });
  };
  for (const [root, { type }] of operations.entries()) {
    if (type !== 'update' || index[root] !== -1) continue;
    const path: { at: number; edge: number }[] = [];
    enter(root, path);
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
      const { at } = top;
      const to = blockers[at]?.[top.edge++];
      if (to === undefined) {
        path.pop();
        const parent = path.at(-1)?.at;
        if (parent !== undefined) low[parent] = Math.min(low[parent] as number, low[at] as number);
        if (low[at] !== index[at]) continue;
        const circle = stack.splice(stack.lastIndexOf(at));
        for (const member of circle) onStack[member] = 0;
        if (circle.length > 1) found.push(circle.sort((a, b) => a - b));
      } else if (index[to] === -1) enter(to, path);
      else if (onStack[to] === 1) low[at] = Math.min(low[at] as number, index[to] as number);
    }
  }
  return found;
}

function fewest(circle: readonly number[], blockers: readonly (readonly number[])[]): readonly number[] {
  for (let size = 1; size < circle.length; size++) {
    for (const chosen of subsets(circle, size)) if (!hasCircle(circle, new Set(chosen), blockers)) return chosen;
  }
  return circle.slice(1);
}

function* subsets(items: readonly number[], size: number, from = 0): Generator<readonly number[]> {
  if (size === 0) yield [];
  else {
    for (let i = from; i + size <= items.length; i++) {
      for (const rest of subsets(items, size - 1, i + 1)) yield [items[i] as number, ...rest];
    }
  }
}

/** Replaces the update that most others wait for and wait on, until no circle is left. */
function greedy(circle: readonly number[], blockers: readonly (readonly number[])[]): readonly number[] {
  const chosen = new Set<number>();
  while (hasCircle(circle, chosen, blockers)) {
    const left = circle.filter((update) => !chosen.has(update));
    const degree = (update: number): number =>
      left.filter((other) => blockers[update]?.includes(other)).length *
      left.filter((other) => blockers[other]?.includes(update)).length;
    const degrees = left.map(degree);
    chosen.add(left[degrees.indexOf(Math.max(...degrees))] as number);
  }
  return [...chosen].sort((a, b) => a - b);
}

function hasCircle(
  circle: readonly number[],
  replaced: ReadonlySet<number>,
  blockers: readonly (readonly number[])[],
): boolean {
  const left = new Set(circle.filter((update) => !replaced.has(update)));
  for (let removed = true; removed; ) {
    removed = false;
    for (const update of left) {
      if ((blockers[update] ?? []).some((blocker) => left.has(blocker))) continue;
      left.delete(update);
      removed = true;
    }
  }
  return left.size > 0;
}

/** Updates in place can wait for each other in a circle (two rules that swap): the fewest of them are made replacements. */
export function breakCircles(changes: readonly RuleChange[], profile: Profile): readonly RuleChange[] {
  if (!profile.refusesCollisions || !changes.some(({ via }) => via === 'patch')) return changes;
  const operations = listOperations(changes, profile);
  const replaced = findUpdatesToReplace(operations, relate(operations, true));
  if (replaced.size === 0) return changes;
  const indices = new Set([...replaced].map((operation) => operations[operation]?.change));
  return changes.map((change, index) => (indices.has(index) ? { ...change, via: 'replace' } : change));
}
