import { type CollectedTraffic, collectTraffic } from './collect-traffic.ts';
import type { Ruled, RuleIndex } from './rule-index.ts';
import { isEmptyTraffic, type LaneRegions, type TrafficSet } from './traffic-set.ts';
import { getRank } from './verdict.ts';

/** A question about several states of the rules at once. The index holds every rule that is in any of them. */
export interface Comparison<T extends Ruled> {
  readonly index: RuleIndex<T>;
  /** How many states, at most 30. */
  readonly states: number;
  /** Bit i is set when the item is in state i. */
  readonly statesOf: (item: T) => number;
  /** Only addresses and ports that one of these items names are compared; usually the items that are not in every state. */
  readonly within: readonly T[];
  /** How many sets of traffic to collect. */
  readonly classes: number;
  /** Which of the sets a packet belongs to (bit c: set c), given for each state the key of the rule that decides there. */
  readonly classify: (keys: readonly number[]) => number;
  /** The rule's key, by default its rank: the lowest that matches decides. It must order rules of different ranks as ranks do. */
  readonly keyOf?: (item: T) => number;
}

/** The key where no rule matches: above all others, and small enough to be stored as a small integer. */
export const noKey = 0x3fff_ffff;

/** Makes a question about ranks one about verdicts: bit i is set when state i accepts. */
export function classifyByVerdict(classify: (accepts: number) => number): (keys: readonly number[]) => number {
  return (keys) => {
    let accepts = 0;
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i];
      if (key === noKey || key === undefined || key % 2 === 0) accepts |= 1 << i;
    }
    return classify(accepts);
  };
}

/** The exact traffic of each class, for nobody and every user with a rule in the index. */
export function compareStates<T extends Ruled>(comparison: Comparison<T>): readonly TrafficSet[] {
  const { index, states, statesOf, within, classify, keyOf = ({ rule }: T) => getRank(rule) } = comparison;
  const numbers = Array.from({ length: comparison.classes }, (_, number) => number);
  const collected = collectTraffic<T, readonly number[], number>({
    index,
    within,
    nothing: new Array<number>(states).fill(noKey),
    keyOf,
    add: (outer, items) => {
      let keys: number[] | null = null;
      for (let i = 0; i < states; i++) {
        const item = items.find((one) => (statesOf(one) >>> i) & 1);
        const key = item === undefined ? noKey : keyOf(item);
        if (key >= (outer[i] as number)) continue;
        keys ??= [...outer];
        keys[i] = key;
      }
      return keys ?? outer;
    },
    describe: (item) => `${statesOf(item)} ${keyOf(item)}`,
    classesOf: (keys) => {
      const member = classify(keys);
      return member === 0 ? [] : numbers.filter((number) => (member >>> number) & 1);
    },
  });
  return numbers.map((number) => listSources(collected, number, index.users));
}

/** The traffic of one class by source, for nobody and these users. */
export function listSources<C>({ nobody, others }: CollectedTraffic<C>, one: C, users: Iterable<string>): TrafficSet {
  const traffic = new Map<string | null, LaneRegions>();
  const put = (source: string | null, regions: LaneRegions | undefined): void => {
    if (regions === undefined || isEmptyTraffic(regions)) traffic.delete(source);
    else traffic.set(source, regions);
  };
  for (const source of [null, ...users]) put(source, nobody.get(one));
  for (const { users: alike, traffic: theirs } of others) for (const user of alike) put(user, theirs.get(one));
  return traffic;
}
