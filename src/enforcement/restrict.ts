import { compareNetworks, contains, type Family, type Network, parseNetwork } from '../model/address.ts';
import type { Ports } from '../model/port-range.ts';
import type { Rule } from '../model/rule.ts';
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
    for (const part of reaches.map((reach) => restrict(item, reach)).filter((found) => found !== null)) {
      const key = JSON.stringify([part.user, part.protocol, part.ports]);
      const before = merged.get(key)?.destinations ?? [];
      merged.set(key, { ...part, destinations: sortTexts([...before, ...part.destinations]) });
    }
  }
  return [...merged.values()];
}

function restrict(traffic: Traffic, reach: Reach): Traffic | null {
  const userId = reach.type === 'rule' ? reach.rule.userId : reach.userId;
  if (userId !== null && traffic.user !== userId) return null;
  const networks = traffic.destinations.map(networkOf);
  if (reach.type === 'scope') {
    const inside = networks.filter((network) => reach.family === null || network.family === reach.family);
    return inside.length === 0 ? null : { ...traffic, destinations: inside.map((network) => network.text) };
  }
  const { destination, ports } = reach.rule;
  const destinations = networks.flatMap((network) => common(network, destination));
  if (destinations.length === 0) return null;
  if (ports === null) return { ...traffic, destinations: destinations.map((network) => network.text) };
  const shared = sharedPorts(traffic, ports);
  if (shared.length === 0) return null;
  return { ...traffic, destinations: destinations.map((network) => network.text), ports: shared };
}

function common(a: Network, b: Network): readonly Network[] {
  return contains(a, b) ? [b] : contains(b, a) ? [a] : [];
}

function sharedPorts(traffic: Traffic, ports: Ports): { readonly low: number; readonly high: number }[] {
  if (traffic.protocol !== ports.type || traffic.ports === null) return [];
  return traffic.ports
    .map(({ low, high }) => ({ low: Math.max(low, ports.low), high: Math.min(high, ports.high) }))
    .filter(({ low, high }) => low <= high);
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
