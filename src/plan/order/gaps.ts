import { mayRebuild, type Operation } from '../operations.ts';
import { createUnionFind, listGroups, type UnionFind } from '../union-find.ts';
import type { GapGroup } from './ordering.ts';

/** What must come before what: deletes before creates that collide, and early operations before a rebuild. Returns the late ones too. */
export function rebuildsLast(
  operations: readonly Operation[],
  components: readonly (readonly number[])[],
  blockers: readonly (readonly number[])[],
  { groupOf }: Gaps,
): { readonly needs: readonly (readonly number[])[]; readonly late: ReadonlySet<number> } {
  const needs = [...blockers];
  const late = new Set<number>();
  for (const component of components) {
    const rebuilds = component.filter((operation) => mayRebuild(operations[operation]));
    if (rebuilds.length === 0) continue;
    const groups = new Set(rebuilds.map((rebuild) => groupOf[rebuild] as number));
    groups.delete(-1);
    const isLate = (operation: number): boolean =>
      mayRebuild(operations[operation]) || groups.has(groupOf[operation] as number);
    const early = component.filter((operation) => !isLate(operation));
    for (const operation of component.filter(isLate)) {
      late.add(operation);
      needs[operation] = [...early, ...(blockers[operation] ?? [])];
    }
  }
  return { needs, late };
}

/** The groups of operations connected by collisions. */
export interface Gaps {
  /** By operation: its group, or -1. */
  readonly groupOf: Int32Array;
  readonly groups: readonly GapGroup[];
  /** Whether the group holds a delete: a gap that must be closed once it is open. */
  readonly isGap: readonly boolean[];
}

/** Operations connected by collisions. */
export function groupGaps(operations: readonly Operation[], blockers: readonly (readonly number[])[]): Gaps {
  const sets: UnionFind = createUnionFind(operations.length);
  const opens = new Uint8Array(operations.length);
  for (const [operation, list] of blockers.entries()) {
    for (const blocker of list) {
      sets.union(operation, blocker);
      opens[blocker] = 1;
    }
  }
  const groupOf = new Int32Array(operations.length).fill(-1);
  const members = listGroups(sets, operations.length).filter(({ length }) => length > 1);
  for (const [group, list] of members.entries()) for (const operation of list) groupOf[operation] = group;
  return {
    groupOf,
    groups: members.map((list) => ({
      openers: list.filter((operation) => opens[operation] === 1),
      closers: list.filter((operation) => (blockers[operation] ?? []).length > 0),
      startsOpen: false,
      staysOpen: false,
    })),
    isGap: members.map((list) => list.some((operation) => operations[operation]?.type === 'delete')),
  };
}

/** By operation: the name of its gap, numbered in the order in which they open. */
export function nameGaps(order: readonly number[], { groupOf, isGap }: Gaps): ReadonlyMap<number, string> {
  const numbers = new Map<number, number>();
  const gaps = new Map<number, string>();
  for (const operation of order) {
    const group = groupOf[operation] as number;
    if (group < 0 || isGap[group] !== true) continue;
    const number = numbers.get(group) ?? numbers.size;
    numbers.set(group, number);
    gaps.set(operation, `g${number + 1}`);
  }
  return gaps;
}
