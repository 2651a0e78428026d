import { compareNetworks } from '../model/address.ts';
import { type Interval, pickLower } from '../model/intervals.ts';
import { findNodesReaching, type LaneIndex, type Ruled } from './rule-index.ts';

/** What a sweep computes at each place from the rules that reach there. */
export interface Sweep<T extends Ruled, S> {
  /** The state where no rule reaches. */
  readonly empty: S;
  /** The state further in: `items` all have one network, and the array is the same one whenever the walk comes there. */
  readonly extend: (outer: S, items: readonly T[]) => S;
  /** Called for consecutive addresses that exactly the same rules reach, in ascending order. */
  readonly visit: (first: bigint, last: bigint, state: S) => void;
}

/** Walks an area over nested networks: `extend` for each network, `visit` for each stretch between edges. */
export function sweep<T extends Ruled, S>(rules: readonly LaneIndex<T>[], area: Interval, work: Sweep<T, S>): void {
  const lists = rules.map((lane) => findNodesReaching(lane, area)).filter(({ length }) => length > 0);
  const nodes =
    lists.length > 1 ? lists.flat().sort((a, b) => compareNetworks(a.network, b.network)) : (lists[0] ?? []);
  const stack: { readonly last: bigint; readonly state: S }[] = [{ last: area.last, state: work.empty }];
  let at = area.first;
  const advance = (to: bigint): void => {
    for (let top = stack.at(-1); top !== undefined && at < to; top = stack.at(-1)) {
      const until = top.last < to ? top.last : to - 1n;
      if (at <= until) {
        work.visit(at, until, top.state);
        at = until + 1n;
      }
      if (at > top.last) stack.pop();
    }
  };
  for (const { network, items } of nodes) {
    advance(network.first);
    for (let top = stack.at(-1); top !== undefined && top.last < network.first; top = stack.at(-1)) stack.pop();
    const outer = stack.at(-1)?.state ?? work.empty;
    stack.push({ last: pickLower(network.last, area.last), state: work.extend(outer, items) });
  }
  advance(area.last + 1n);
}
