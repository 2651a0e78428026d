import { getOrMake } from '../../model/group-by.ts';
import { extendProfile, type Fold, getValueAt, makeFlatProfile, type PortProfile } from '../port-profile.ts';
import { findNodesReached, type LaneNode, type Ruled, type RuleIndex } from '../rule-index.ts';
import { compareDeciding, type Packet } from '../verdict.ts';

/** Every rule of an index in the order in which they would decide, the one that decides on a packet, and the one that would without it. */
export type Leaders<T extends Ruled> = ReturnType<typeof findLeaders<T>>;

/** The keys of two rules, the lower one first. */
type Pair = readonly [number, number];

/** As `decide`, but asked very often: a network is looked at when first asked, and then found by port. */
export function findLeaders<T extends Ruled>(index: RuleIndex<T>) {
  const items: readonly T[] = [...index.scopes.values()].flat().sort((a, b) => compareDeciding(a.rule, b.rule));
  const keys = new Map(items.map((item, key) => [item, key]));
  const none = items.length;
  const keyOf = (item: T | undefined): number => (item === undefined ? none : (keys.get(item) ?? none));
  const fold: Fold<T, Pair> = {
    nothing: [none, none],
    keyOf,
    add: (outer, [first, second]) => firstTwo(outer, [keyOf(first), keyOf(second)]),
  };
  const known = new Map<LaneNode<T>, PortProfile<Pair>>();
  const profileOf = ({ items: own }: LaneNode<T>): PortProfile<Pair> => {
    const protocol = own.find(({ rule }) => rule.ports !== null)?.rule.ports?.type ?? 'other';
    return extendProfile(makeFlatProfile(fold.nothing), own, fold, protocol);
  };
  const keysAt = (node: LaneNode<T>, port: number): Pair => {
    const profile = getOrMake(known, node, () => profileOf(node));
    return getValueAt(profile, port);
  };
  const rulesOf = ([best, second]: Pair): readonly [T | null, T | null] => [items[best] ?? null, items[second] ?? null];
  return {
    /** Copies of one rule keep the index's order. */
    items,
    /** The item's position there; behind all others for none. */
    keyOf,
    /** The two rules of one network that come first at a port (of `other`: those without ports). */
    at: (node: LaneNode<T>, port: number) => rulesOf(keysAt(node, port)),
    /** Null where no rule is left. */
    of(packet: Packet) {
      const pairs = findNodesReached(index, packet).map((node) => keysAt(node, packet.port));
      return rulesOf(pairs.reduce(firstTwo, fold.nothing));
    },
  };
}

function firstTwo(a: Pair, b: Pair): Pair {
  return a[0] <= b[0] ? [a[0], Math.min(a[1], b[0])] : [b[0], Math.min(b[1], a[0])];
}
