import { getOrMake } from '../../model/group-by.ts';
import { compareRules } from '../../model/rule.ts';
import { findNodesCovering, getLane, getLaneRules, type LaneNode, type Ruled, type RuleIndex } from '../rule-index.ts';
import { getRank, type Packet } from '../verdict.ts';
import { type PortKey, TopTwo } from './top-two-by-port.ts';

/** Finds the rule that decides on a packet, and the one that would without it. */
export interface Leaders<T extends Ruled> {
  /** Null where no rule is left. */
  of(packet: Packet): readonly [T | null, T | null];
  /** The two rules of one network that come first at a port (of `other`: those without ports). */
  at(node: LaneNode<T>, port: number): readonly [T | null, T | null];
}

/** As `decide`, but asked very often: O(log n) for each network around the address; a network is looked at when first asked. */
export function findLeaders<T extends Ruled>(index: RuleIndex<T>, { items, keys }: Ranking<T>): Leaders<T> {
  const none = items.length;
  const known = new Map<LaneNode<T>, Node>();
  const keysOf = (node: LaneNode<T>, port: number): readonly [number, number] => {
    const found = getOrMake(known, node, () => nodeOf(node, none, keys));
    return firstTwo(found.flat, found.ports.at(port));
  };
  const rulesOf = ([best, second]: readonly [number, number]) => [items[best] ?? null, items[second] ?? null] as const;
  return {
    at: (node, port) => rulesOf(keysOf(node, port)),
    of({ user, address, protocol, port }) {
      const lane = getLane(address.family, protocol);
      let leading: readonly [number, number] = [none, none];
      for (const scope of user === null ? [null] : [user, null]) {
        for (const node of findNodesCovering(getLaneRules(index, scope, lane), address.first)) {
          leading = firstTwo(leading, keysOf(node, port));
        }
      }
      return rulesOf(leading);
    },
  };
}

/** The rules of one network: the two lowest keys at each port, and of those without ports. */
interface Node {
  readonly ports: TopTwo;
  readonly flat: readonly [number, number];
}

function nodeOf<T extends Ruled>(node: LaneNode<T>, none: number, keys: ReadonlyMap<T, number>): Node {
  const withPorts: PortKey[] = [];
  let flat: readonly [number, number] = [none, none];
  for (const item of node.items) {
    const key = keys.get(item) ?? none;
    if (item.rule.ports === null) flat = firstTwo(flat, [key, none]);
    else withPorts.push({ ports: item.rule.ports, key });
  }
  return { ports: new TopTwo(none, null, withPorts), flat };
}

/** The two lowest of two ascending pairs. */
function firstTwo(a: readonly [number, number], b: readonly [number, number]): readonly [number, number] {
  return a[0] <= b[0] ? [a[0], Math.min(a[1], b[0])] : [b[0], Math.min(b[1], a[0])];
}

/** Every rule of an index in the order in which they would decide; a rule's key is its position there. */
export interface Ranking<T extends Ruled> {
  readonly items: readonly T[];
  readonly keys: ReadonlyMap<T, number>;
}

/** Ranks the rules. Copies of one rule keep the index's order. */
export function rankRules<T extends Ruled>(index: RuleIndex<T>): Ranking<T> {
  const every = new Set([...index.scopes.values()].flatMap((scope) => scope.flatMap(({ items }) => items)));
  const items = [...every].sort((a, b) => getRank(a.rule) - getRank(b.rule) || compareRules(a.rule, b.rule));
  return { items, keys: new Map(items.map((item, key) => [item, key])) };
}
