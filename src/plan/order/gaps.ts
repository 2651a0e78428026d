import { getOrMake } from '../../model/group-by.ts';
import { type Links, mayRebuild, type Operation } from '../plan.ts';
import { groupConnected } from '../union-find.ts';

/** What must come before what: deletes before creates that collide, and early operations before a rebuild. Returns the late ones too. */
export function rebuildsLast(
  operations: readonly Operation[],
  components: readonly (readonly number[])[],
  { groupOf, blockers }: Gaps,
): { readonly needs: Links; readonly late: ReadonlySet<number> } {
  const rebuilds = new Set([...operations.keys()].filter((operation) => mayRebuild(operations[operation])));
  const late = new Set(rebuilds);
  if (late.size === 0) return { needs: blockers, late };
  const needs = [...blockers];
  for (const component of components) {
    const mine = component.filter((operation) => rebuilds.has(operation));
    if (mine.length === 0) continue;
    const groups = new Set(mine.map((rebuild) => groupOf[rebuild] as number));
    groups.delete(-1);
    const isLate = (operation: number): boolean => rebuilds.has(operation) || groups.has(groupOf[operation] as number);
    const early = component.filter((operation) => !isLate(operation));
    for (const operation of component.filter(isLate)) {
      late.add(operation);
      needs[operation] = [...early, ...(blockers[operation] ?? [])];
    }
  }
  return { needs, late };
}

export type Gaps = ReturnType<typeof groupGaps>;

/**
 * Groups the operations that collisions connect. By operation: its group or -1 (`groupOf`), those that must come before it (`blockers`),
 * and 1 for one that must come before another (`opens`). A group that holds a delete is a gap, which must be closed once it is open.
 */
export function groupGaps(operations: readonly Operation[], blockers: Links) {
  const opens = new Uint8Array(operations.length);
  const groups = groupConnected(operations.length, (connect) => {
    for (let operation = 0; operation < blockers.length; operation++) {
      for (const blocker of blockers[operation] ?? []) {
        connect(operation, blocker);
        opens[blocker] = 1;
      }
    }
  });
  const groupOf = new Int32Array(operations.length).fill(-1);
  for (const [group, list] of groups.entries()) for (const operation of list) groupOf[operation] = group;
  const isGap = groups.map((list) => list.some((operation) => operations[operation]?.type === 'delete'));
  return { groupOf, groups, blockers, opens, isGap };
}

/** By position in the order: the name of the gap, numbered in the order in which they open; null outside gaps. */
export function nameGaps(order: readonly number[], { groupOf, isGap }: Gaps): readonly (string | null)[] {
  const names = new Map<number, string>();
  return order.map((operation) => {
    const group = groupOf[operation] as number;
    return isGap[group] === true ? getOrMake(names, group, () => `g${names.size + 1}`) : null;
  });
}
