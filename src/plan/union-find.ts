import { groupBy } from '../model/group-by.ts';
/** Disjoint sets of 0..size-1. */
export interface UnionFind {
  find(item: number): number;
  union(a: number, b: number): void;
}

export function createUnionFind(size: number): UnionFind {
  const parent = Int32Array.from({ length: size }, (_, i) => i);
  const find = (item: number): number => {
    let root = item;
    while (parent[root] !== root) root = parent[root] as number;
    for (let at = item; at !== root; ) {
      const next = parent[at] as number;
      parent[at] = root;
      at = next;
    }
    return root;
  };
  return {
    find,
    union(a, b) {
      const [x, y] = [find(a), find(b)];
      if (x !== y) parent[Math.max(x, y)] = Math.min(x, y);
    },
  };
}

/** The sets with their members in ascending order, ordered by their least member. */
export function listGroups(sets: UnionFind, size: number): readonly (readonly number[])[] {
  return [...groupBy(new Array(size).keys(), sets.find).values()];
}
