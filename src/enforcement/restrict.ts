import { compareNetworks, makeNetwork, type Network, parseNetwork } from '../model/address.ts';
import { groupBy } from '../model/group-by.ts';
import type { Rule } from '../model/rule.ts';
import { restrictTraffic, type TrafficSelector } from '../policy/reach.ts';
import type { Effect, Traffic } from '../policy/traffic.ts';

/** Traffic that a finding can concern: a part of a user's, or of everybody's (null). */
export interface Reach {
  readonly userId: string | null;
  readonly part: TrafficSelector;
}

/** What a rule matches. */
export function reachOf({ userId, destination, ports }: Rule): Reach {
  return { userId, part: { network: destination, protocol: ports?.type ?? null, ports } };
}

/** All traffic in these families. */
export function listReaches(userId: string | null, families: readonly Network['family'][]): readonly Reach[] {
  return families.map((family) => {
    return { userId, part: { network: makeNetwork(family, 0n, 0), protocol: null, ports: null } };
  });
}

/** The part of an effect inside any of the reaches, which must be disjoint. */
export function restrictEffect({ opens, closes }: Effect, reaches: readonly Reach[]): Effect {
  return { opens: restrictAll(opens, reaches), closes: restrictAll(closes, reaches) };
}

function restrictAll(traffic: readonly Traffic[], reaches: readonly Reach[]): readonly Traffic[] {
  const parts = traffic.flatMap((one) =>
    reaches.flatMap(({ userId, part }) => (userId === null || userId === one.user ? restrictTraffic([one], part) : [])),
  );
  const alike = groupBy(parts, ({ user, protocol, ports }) => JSON.stringify([user, protocol, ports]));
  return [...alike.values()].flatMap(([first, ...others]) => {
    if (first === undefined) return [];
    const destinations = [first, ...others].flatMap((one) => one.destinations);
    return [{ ...first, destinations: sortTexts(destinations) }];
  });
}

function sortTexts(texts: readonly string[]): readonly string[] {
  return [...new Set(texts)]
    .flatMap((text) => {
      const parsed = parseNetwork(text);
      return parsed.ok ? [parsed.value.network] : [];
    })
    .sort(compareNetworks)
    .map(({ text }) => text);
}
