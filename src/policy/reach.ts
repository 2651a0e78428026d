import { intersects, Network, readNetworks } from '../model/address.ts';
import { getOrMake } from '../model/group-by.ts';
import type { PortRange } from '../model/port-range.ts';
import type { Rule } from '../model/rule.ts';
import type { Protocol } from '../model/state.ts';
import { computeEffect } from './effect.ts';
import { intersectPorts } from './port-set.ts';
import type { Traffic } from './traffic.ts';

/** What the rules accept and what they drop, of devices of nobody and of every user with rules of their own. */
export type ReachableTraffic = Readonly<Record<'accepted' | 'dropped', readonly Traffic[]>>;

/** A part of all traffic; null: every protocol, every port. */
export interface TrafficSelector {
  readonly network: Network;
  readonly protocol: Protocol | null;
  readonly ports: PortRange | null;
}

/** Exactly the traffic that the rules accept and drop, of these users or in this part: the effect of going from dropping, and from accepting, all of it. */
export function computeReach(
  rules: readonly Rule[],
  { users, part }: { readonly users?: ReadonlySet<string>; readonly part?: TrafficSelector } = {},
): ReachableTraffic {
  const select = (traffic: readonly Traffic[]): readonly Traffic[] => {
    const theirs = traffic.filter(({ user }) => users?.has(user ?? '') ?? true);
    return part === undefined ? theirs : restrictTraffic(theirs, part);
  };
  const asked = users ?? [];
  const { opens } = computeEffect(dropAll, rules, asked);
  return { accepted: select(opens), dropped: select(computeEffect([], rules, asked).closes) };
}

const dropAll = ([4, 6] as const).map((family): Rule => {
  return { action: 'drop', destination: new Network(family, 0n, 0), ports: null, userId: null };
});

/** A table asks about the same traffic once for each of its columns. */
const networksOf = new WeakMap<readonly string[], readonly Network[]>();

/** The traffic inside a part. Networks nest or are disjoint, so that each is kept, cut to the part's, or left out. */
export function restrictTraffic(traffic: readonly Traffic[], part: TrafficSelector): readonly Traffic[] {
  return traffic.flatMap((one) => {
    if (part.protocol !== null && part.protocol !== one.protocol) return [];
    const ports = one.ports === null || part.ports === null ? one.ports : intersectPorts(one.ports, [part.ports]);
    const networks = getOrMake(networksOf, one.destinations, () => readNetworks(one.destinations));
    const inside = networks.filter((network) => intersects(network, part.network));
    const destinations = inside.map(({ text, prefix }) => (prefix < part.network.prefix ? part.network.text : text));
    return destinations.length === 0 || ports?.length === 0 ? [] : [{ ...one, destinations, ports }];
  });
}
