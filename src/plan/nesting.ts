import { compareNetworks, contains, type Network } from '../model/address.ts';

export interface Level<T> {
  readonly network: Network;
  readonly items: readonly T[];
}

/** Visits the items by network, each with the earlier networks that enclose it, outermost first (`enclosing` is reused). */
export function eachLevel<T>(
  items: readonly T[],
  networkOf: (item: T) => Network,
  visit: (level: Level<T>, enclosing: readonly Level<T>[]) => void,
): void {
  const sorted = items.toSorted((a, b) => compareNetworks(networkOf(a), networkOf(b)));
  const stack: Level<T>[] = [];
  for (let from = 0; from < sorted.length; ) {
    const network = networkOf(sorted[from] as T);
    let to = from + 1;
    while (to < sorted.length && compareNetworks(networkOf(sorted[to] as T), network) === 0) to++;
    while (stack.length > 0 && !contains((stack.at(-1) as Level<T>).network, network)) stack.pop();
    const level = { network, items: sorted.slice(from, to) };
    visit(level, stack);
    stack.push(level);
    from = to;
  }
}
