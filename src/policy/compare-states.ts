import { collectTraffic } from './collect-traffic.ts';
import { renderTraffic } from './render-traffic.ts';
import type { Ruled, RuleIndex } from './rule-index.ts';
import { getRank, getVerdict, noRank, type Rank } from './verdict.ts';

/** A question about two or more states of the rules at once. The index holds every rule that is in one of them. */
export interface Comparison<T extends Ruled, C> {
  readonly index: RuleIndex<T>;
  /** Two, where nothing is said. */
  readonly states?: number;
  /** Bit i is set when the item is in state i. */
  readonly statesOf: (item: T) => number;
  /** Only addresses and ports that one of these items names are compared; usually the items that are not in both. */
  readonly within: readonly T[];
  /** The class of packets that these states accept (bit i: state i); null where they are not asked about. */
  readonly classify: (accepts: number) => C | null;
}

/** The exact traffic of each class, for nobody and every user with a rule in the index. */
export function compareStates<T extends Ruled, C>(comparison: Comparison<T, C>) {
  const { index, states = 2, statesOf, within, classify } = comparison;
  const collected = collectTraffic<T, readonly (Rank | typeof noRank)[], C>({
    index,
    within,
    nothing: Array.from({ length: states }, () => noRank),
    keyOf: ({ rule }) => getRank(rule),
    add: (outer, items) => {
      const ranks = outer.map((rank, i) => {
        const item = items.find((one) => (statesOf(one) >>> i) & 1);
        return item === undefined ? rank : (Math.min(rank, getRank(item.rule)) as typeof rank);
      });
      return ranks.every((rank, i) => rank === outer[i]) ? outer : ranks;
    },
    describe: (item) => `${statesOf(item)} ${getRank(item.rule)}`,
    classesOf: (ranks) => {
      let accepts = 0;
      for (const [i, rank] of ranks.entries()) if (getVerdict(rank) === 'accept') accepts |= 1 << i;
      const one = classify(accepts);
      return one === null ? [] : [one];
    },
  });
  return renderTraffic(collected, index.users);
}
