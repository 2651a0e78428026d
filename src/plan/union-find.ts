import { getOrMake } from '../model/group-by.ts';

/** The groups of two and more among 0..size-1 that `eachPair` connects, directly or by others; their members ascend. */
export function groupConnected(size: number, eachPair: (connect: (a: number, b: number) => void) => void) {
  const parent = new Int32Array(size).map((_, item) => item);
  const find = (item: number): number => {
    for (let at = item; ; at = parent[at] as number) {
      if (parent[at] === at) return at;
      // The way is halved for whoever goes it next.
      parent[at] = parent[parent[at] as number] as number;
    }
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
