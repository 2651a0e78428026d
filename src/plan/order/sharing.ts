import { getOrMake } from '../../model/group-by.ts';
import type { Profile } from '../../model/profile.ts';
import { collides } from '../../model/rule.ts';
import { eachMeeting } from '../meeting.ts';
import { type Links, listOperations, listRules, type Operation, type RuleChange } from '../plan.ts';

/** Which operations share a packet (`sharing`: pairs, even and odd), and, with collisions, which come before which (`blockers`). */
export function relate(operations: readonly Operation[], refusesCollisions: boolean) {
  const sharing: number[] = [];
  const found = new Map<number, number[]>();
  eachMeeting(
    listRules(operations),
    ({ rule }) => rule,
    (outer, inner) => {
      if (outer.operation === inner.operation) return;
      sharing.push(outer.operation, inner.operation);
      if (!refusesCollisions || outer.added === inner.added || !collides(outer.rule, inner.rule)) return;
      const [removing, adding] = outer.added ? [inner, outer] : [outer, inner];
      getOrMake(found, adding.operation, () => []).push(removing.operation);
    },
  );
  const blockers: Links = operations.map((_, operation) => [...new Set(found.get(operation))].sort((a, b) => a - b));
  return { sharing, blockers };
}

/**
 * Updates that wait for each other in a circle (two rules that swap) cannot all be done in place: some are replaced, a delete and
 * a create instead of an update, which cannot be part of a circle. Of each circle that is left, the update goes that most others
 * wait for and wait on; among equals the first in the order given.
 */
function findUpdatesToReplace(operations: readonly Operation[], { blockers }: ReturnType<typeof relate>) {
  const left = new Set([...operations.keys()].filter((one) => operations[one]?.type === 'update'));
  const waiting = new Map<number, number[]>();
  for (const one of left) for (const blocker of blockers[one] ?? []) getOrMake(waiting, blocker, () => []).push(one);
  const before = (one: number): readonly number[] => (blockers[one] ?? []).filter((other) => left.has(other));
  const after = (one: number): readonly number[] => (waiting.get(one) ?? []).filter((other) => left.has(other));
  /** Takes out what is part of no circle: what waits for nothing that is left, or is not waited for. */
  const strip = (from: Iterable<number>): void => {
    const open = [...from];
    for (let one = open.pop(); one !== undefined; one = open.pop()) {
      const [earlier, later] = [before(one), after(one)];
      if (!left.has(one) || (earlier.length > 0 && later.length > 0)) continue;
      left.delete(one);
      for (const other of [...earlier, ...later]) open.push(other);
    }
  };
  strip(left);
  const replaced = new Set<number>();
  for (let [start] = left; start !== undefined; [start] = left) {
    const path = [start];
    let next = before(start)[0] as number;
    for (; !path.includes(next); next = before(next)[0] as number) path.push(next);
    const circle = path.slice(path.indexOf(next)).sort((a, b) => a - b);
    const degrees = circle.map((one) => before(one).length * after(one).length);
    const chosen = circle[degrees.indexOf(Math.max(...degrees))] as number;
    const near = [...before(chosen), ...after(chosen)];
    replaced.add(chosen);
    left.delete(chosen);
    strip(near);
  }
  return replaced;
}

/** Updates in place can wait for each other in a circle (two rules that swap): few of them are made replacements. */
export function breakCircles(changes: readonly RuleChange[], profile: Profile): readonly RuleChange[] {
  if (!profile.refusesCollisions || !changes.some(({ via }) => via === 'patch')) return changes;
  const operations = listOperations(changes, profile);
  const replaced = findUpdatesToReplace(operations, relate(operations, true));
  if (replaced.size === 0) return changes;
  const indices = new Set([...replaced].map((operation) => operations[operation]?.change));
  return changes.map((change, index) => (indices.has(index) ? { ...change, via: 'replace' } : change));
}
