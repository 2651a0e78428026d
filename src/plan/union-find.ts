import { getOrMake } from '../model/group-by.ts';

/** Disjoint sets of 0..size-1. */
export interface UnionFind {
  find(item: number): number;
  union(a: number, b: number): void;
}

export function createUnionFind(size: number): UnionFind {
  const parent = new Int32Array(size).map((_, item) => item);
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

/** The sets of two and more, each with its members in ascending order. */
export function listGroups(sets: UnionFind, size: number): readonly (readonly number[])[] {
  const groups = new Map<number, number[]>();
  for (let item = 0; item < size; item++) {
    const least = sets.find(item);
    if (least !== item) getOrMake(groups, least, () => [least]).push(item);
  }
  return [...groups.values()];
}
