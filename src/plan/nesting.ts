import { compareNetworks, contains, type Network } from '../model/address.ts';

/**
 * Visits the items in the order of their networks, each with the earlier items whose network encloses or equals its own,
 * outermost first. Networks nest or are disjoint, so sorting and one stack find them all. `enclosing` is reused: do not keep it.
 */
export function eachWithEnclosing<T>(
  items: readonly T[],
  networkOf: (item: T) => Network,
  visit: (item: T, enclosing: readonly T[]) => void,
): void {
  const sorted = items.toSorted((a, b) => compareNetworks(networkOf(a), networkOf(b)));
  const stack: T[] = [];
  for (const item of sorted) {
    while (stack.length > 0 && !contains(networkOf(stack.at(-1) as T), networkOf(item))) stack.pop();
    visit(item, stack);
    stack.push(item);
  }
}
