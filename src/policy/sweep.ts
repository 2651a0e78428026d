import { compareNetworks, type Network } from '../model/address.ts';
import { type Interval, lower } from './intervals.ts';
import { itemsReaching, type LaneIndex, type Ruled } from './rule-index.ts';

/** What a sweep computes at each place from the rules that reach there. */
export interface Sweep<T extends Ruled, S> {
  /** The state where no rule reaches. */
  readonly empty: S;
  /** The state one network further in: `items` all have that network. */
  readonly extend: (outer: S, items: readonly T[]) => S;
  /** Called for consecutive addresses that exactly the same rules reach, in ascending order, until it returns false. */
  readonly visit: (first: bigint, last: bigint, state: S) => boolean | undefined;
}

/**
 * Walks the addresses of an area over the nested networks of one or more rule sets, calling `extend` once for each network
 * and `visit` for each stretch between their edges. Costs what lies in the area, not what is indexed. Returns false when
 * a visit stopped it.
 */
export function sweep<T extends Ruled, S>(rules: readonly LaneIndex<T>[], area: Interval, work: Sweep<T, S>): boolean {
  const items = mergeByNetwork(rules.map((lane) => itemsReaching(lane, area)));
  const stack: { readonly last: bigint; readonly state: S }[] = [{ last: area.last, state: work.empty }];
  let at = area.first;
  const advance = (to: bigint): boolean => {
    for (let top = stack.at(-1); top !== undefined && at < to; top = stack.at(-1)) {
      const until = top.last < to ? top.last : to - 1n;
      if (at <= until && work.visit(at, until, top.state) === false) return false;
      if (at <= until) at = until + 1n;
      if (at > top.last) stack.pop();
    }
    return true;
  };
  for (let i = 0; i < items.length; ) {
    const network = items[i]?.rule.destination;
    if (network === undefined) break;
    let end = i + 1;
    while (sameNetwork(items[end], network)) end++;
    if (!advance(network.first)) return false;
    for (let top = stack.at(-1); top !== undefined && top.last < network.first; top = stack.at(-1)) stack.pop();
    const last = lower(network.last, area.last);
    const outer = stack.at(-1)?.state ?? work.empty;
    stack.push({ last, state: work.extend(outer, items.slice(i, end)) });
    i = end;
  }
  return advance(area.last + 1n);
}

function sameNetwork<T extends Ruled>(item: T | undefined, { first, prefix }: Network): boolean {
  return item !== undefined && item.rule.destination.first === first && item.rule.destination.prefix === prefix;
}

function mergeByNetwork<T extends Ruled>(lists: readonly (readonly T[])[]): readonly T[] {
  const filled = lists.filter((list) => list.length > 0);
  if (filled.length <= 1) return filled[0] ?? [];
  return filled.flat().sort((a, b) => compareNetworks(a.rule.destination, b.rule.destination));
}
