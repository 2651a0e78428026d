/** Groups items by a key; groups and members keep the order of first appearance. */
export function groupBy<K, T>(items: Iterable<T>, keyOf: (item: T) => K): ReadonlyMap<K, readonly T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}

/** Of items with the same key the first; `tell` is called for each of the others. */
export function keepFirst<T>(
  items: readonly T[],
  keyOf: (item: T) => string,
  tell?: (other: T, first: T) => void,
): readonly T[] {
  const firsts = new Map<string, T>();
  return items.filter((item) => {
    const key = keyOf(item);
    const first = firsts.get(key);
    if (first === undefined) firsts.set(key, item);
    else tell?.(item, first);
    return first === undefined;
  });
}

interface Cache<K, V> {
  get(key: K): V | undefined;
  set(key: K, value: V): unknown;
}

/** The value under the key; one that is missing is made, and kept. */
export function getOrMake<K, V>(map: Cache<K, V>, key: K, make: () => V): V {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}

/** These, and all that `next` leads to from them. */
export function collectReachable<T>(starts: Iterable<T>, next: (one: T) => Iterable<T>): ReadonlySet<T> {
  const reached = new Set<T>();
  const open = [...starts];
  for (let one = open.pop(); one !== undefined; one = open.pop()) {
    if (reached.has(one)) continue;
    reached.add(one);
    for (const other of next(one)) open.push(other);
  }
  return reached;
}

/** The first of `count` positions, sorted by it, for which the test holds; `count` where it holds for none. */
export function findFirstPosition(count: number, test: (position: number) => boolean): number {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (test(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
