import { compareNetworks, type Family, type Network, parseNetwork } from '../model/address.ts';
import type { Rule } from '../model/rule.ts';
import { restrictTraffic } from '../policy/reach.ts';
import type { Effect, Traffic } from '../policy/traffic.ts';

/** Traffic that a finding can concern: that which a rule matches, or all of a user in a family (null: both). */
export type Reach =
  | { readonly type: 'rule'; readonly rule: Rule }
  | { readonly type: 'scope'; readonly userId: string | null; readonly family: Family | null };

/** The part of an effect inside any of the reaches, which must be disjoint. */
export function restrictEffect(effect: Effect, reaches: readonly Reach[]): Effect {
  return { opens: restrictAll(effect.opens, reaches), closes: restrictAll(effect.closes, reaches) };
}

function restrictAll(traffic: readonly Traffic[], reaches: readonly Reach[]): readonly Traffic[] {
  const merged = new Map<string, Traffic>();
  for (const item of traffic) {
    for (const part of reaches.flatMap((reach) => restrict(item, reach))) {
      const key = JSON.stringify([part.user, part.protocol, part.ports]);
      const before = merged.get(key)?.destinations ?? [];
      merged.set(key, { ...part, destinations: sortTexts([...before, ...part.destinations]) });
    }
  }
  return [...merged.values()];
}

function restrict(traffic: Traffic, reach: Reach): readonly Traffic[] {
  const userId = reach.type === 'rule' ? reach.rule.userId : reach.userId;
  if (userId !== null && traffic.user !== userId) return [];
  if (reach.type === 'rule') {
    const { destination, ports } = reach.rule;
    return restrictTraffic([traffic], { network: destination, protocol: ports?.type ?? null, ports });
  }
  const inside = traffic.destinations.filter(
    (text) => reach.family === null || networkOf(text).family === reach.family,
  );
  return inside.length === 0 ? [] : [{ ...traffic, destinations: inside }];
}

function sortTexts(texts: readonly string[]): readonly string[] {
  return [...new Set(texts)]
    .map(networkOf)
    .sort(compareNetworks)
    .map((network) => network.text);
}

/** Destinations of traffic are canonical CIDRs; another text would be a mistake of this program. */
function networkOf(text: string): Network {
  const parsed = parseNetwork(text);
  if (!parsed.ok) throw new Error(`not a canonical network: ${text}`);
  return parsed.value.network;
}
