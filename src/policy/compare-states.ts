import { collectTraffic } from './collect-traffic.ts';
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
  const { nobody, others } = collectTraffic<T, readonly number[], number>({
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
  const sets = numbers.map(() => new Map<string | null, LaneRegions>());
  const put = (source: string | null, traffic: typeof nobody): void => {
    for (const [number, regions] of traffic) if (!isEmptyTraffic(regions)) sets[number]?.set(source, regions);
  };
  for (const source of [null, ...index.users]) put(source, nobody);
  for (const { users, traffic } of others) {
    for (const user of users) {
      for (const set of sets) set.delete(user);
      put(user, traffic);
    }
  }
  return sets;
}
