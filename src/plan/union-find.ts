import { getOrMake } from '../model/group-by.ts';

/** The groups of two and more among 0..size-1 that `eachPair` connects, directly or by others; their members ascend. */
export function groupConnected(
  size: number,
  eachPair: (connect: (a: number, b: number) => void) => void,
): readonly (readonly number[])[] {
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
  eachPair((a, b) => {
    const [x, y] = [find(a), find(b)];
    parent[Math.max(x, y)] = Math.min(x, y);
  });
  const groups = new Map<number, number[]>();
  for (let item = 0; item < size; item++) {
    const least = find(item);
    if (least !== item) getOrMake(groups, least, () => [least]).push(item);
  }
  return [...groups.values()];
}
