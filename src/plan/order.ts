import type { Profile } from '../model/profile.ts';
import { compareRules, type Rule } from '../model/rule.ts';
import { rankOf } from '../policy/verdict.ts';
import { eachCollision } from './collisions.ts';
import type { Operation } from './operations.ts';

/** One operation in the order, with the positions of those that must be done first and the gap it belongs to. */
export interface Ordered {
  readonly operation: Operation;
  readonly after: readonly number[];
  readonly gap: number | null;
}

/** Puts the operations in an order that the server accepts at every step. */
export function orderOperations(operations: readonly Operation[], profile: Profile): readonly Ordered[] {
  const blockers = profile.refusesCollisions ? blockersOf(operations) : new Map<Operation, Operation[]>();
  const sorted: Operation[] = [];
  const placed = new Set<Operation>();
  const place = (operation: Operation): void => {
    if (placed.has(operation)) return;
    placed.add(operation);
    for (const blocker of blockers.get(operation) ?? []) place(blocker);
    sorted.push(operation);
  };
  for (const operation of operations.filter(({ added }) => added !== null).toSorted(byRank('added'))) place(operation);
  for (const operation of operations
    .filter(({ added }) => added === null)
    .toSorted(byRank('removed'))
    .reverse())
    place(operation);
  const position = new Map(sorted.map((operation, index) => [operation, index]));
  return sorted.map((operation) => ({
    operation,
    after: (blockers.get(operation) ?? []).map((blocker) => position.get(blocker) as number).sort((a, b) => a - b),
    gap: null,
  }));
}

function byRank(side: 'added' | 'removed'): (a: Operation, b: Operation) => number {
  return (a, b) => {
    const [x, y] = [a[side] as Rule, b[side] as Rule];
    return rankOf(x) - rankOf(y) || compareRules(x, y);
  };
}

function blockersOf(operations: readonly Operation[]): Map<Operation, Operation[]> {
  const removing = operations.filter(({ removed }) => removed !== null);
  const adding = operations.filter(({ added }) => added !== null);
  const blockers = new Map<Operation, Operation[]>();
  eachCollision(
    removing.map(({ removed }) => removed as Rule),
    adding.map(({ added }) => added as Rule),
    (left, right) => {
      const [blocker, blocked] = [removing[left] as Operation, adding[right] as Operation];
      if (blocker === blocked) return;
      blockers.set(blocked, [...(blockers.get(blocked) ?? []), blocker]);
    },
  );
  return blockers;
}
