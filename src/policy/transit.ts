import { byVerdict, compareStates } from './compare.ts';
import type { Ruled, RuleIndex } from './rule-index.ts';
import type { TrafficSet } from './traffic-set.ts';

/** A way from one set of rules to another over states in between. */
export interface Transit<T extends Ruled> {
  /** Every rule of before, after, or between, those that never change included. */
  readonly index: RuleIndex<T>;
  readonly before: (item: T) => boolean;
  readonly after: (item: T) => boolean;
  /** The states in between, each as the rules that stand in it. */
  readonly between: readonly ((item: T) => boolean)[];
  /** Rules that change on the way: only addresses that they name are looked at. */
  readonly changed: readonly T[];
}

/** What a state in between does to traffic that has one verdict before and after. */
export interface TransitTraffic {
  /** Accepted there, dropped before and after. */
  readonly opened: TrafficSet;
  /** Dropped there, accepted before and after. */
  readonly cutOff: TrafficSet;
}

/** States compared in one walk; a bit each beside before and after, and two classes each. */
const statesAtOnce = 14;

/** For each state in between, in order, exactly the traffic whose verdict is neither that before nor that after. */
export function transitTraffic<T extends Ruled>(transit: Transit<T>): readonly TransitTraffic[] {
  const out: TransitTraffic[] = [];
  for (let i = 0; i < transit.between.length; i += statesAtOnce) {
    out.push(...compareSome(transit, transit.between.slice(i, i + statesAtOnce)));
  }
  return out;
}

function compareSome<T extends Ruled>(
  { index, before, after, changed }: Transit<T>,
  between: readonly ((item: T) => boolean)[],
): readonly TransitTraffic[] {
  const all = [before, after, ...between];
  const memberships = new Map<T, number>();
  const statesOf = (item: T): number => {
    const known = memberships.get(item);
    if (known !== undefined) return known;
    const bits = all.reduce((sum, holds, i) => (holds(item) ? sum | (1 << i) : sum), 0);
    memberships.set(item, bits);
    return bits;
  };
  const sets = compareStates({
    index,
    states: all.length,
    statesOf,
    within: changed,
    classes: between.length * 2,
    classify: byVerdict((accepts) => between.reduce((bits, _, i) => bits | (deviation(accepts, i) << (2 * i)), 0)),
  });
  return between.map((_, i) => ({ opened: sets[2 * i] ?? new Map(), cutOff: sets[2 * i + 1] ?? new Map() }));
}

/** 1: state i opens, 2: it cuts off, 0: its verdict is that before or that after. */
function deviation(accepts: number, i: number): 0 | 1 | 2 {
  const ends = accepts & 0b11;
  const there = (accepts >>> (i + 2)) & 1;
  if (ends === 0b00 && there === 1) return 1;
  return ends === 0b11 && there === 0 ? 2 : 0;
}
