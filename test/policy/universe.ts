import fc from 'fast-check';
import { Network, parseNetwork } from '../../src/model/address.ts';
import type { Ports } from '../../src/model/port-range.ts';
import type { Rule } from '../../src/model/rule.ts';
import type { Traffic } from '../../src/policy/traffic.ts';
import { getRank, matches, type Packet } from '../../src/policy/verdict.ts';

/** A universe small enough to try every packet: 8 addresses of each family, ports 0 to 6, three sources. */
export const users = ['aaaaaaaa-0000-4000-8000-000000000001', 'bbbbbbbb-0000-4000-8000-000000000002'] as const;
export const stranger = 'cccccccc-0000-4000-8000-000000000003';
const bases = { 4: 0xc0000200n, 6: 0x20010db8000000000000000000000000n } as const;
const highestPort = 6;

const network: fc.Arbitrary<Network> = fc
  .record({ family: fc.constantFrom(4, 6), offset: fc.bigInt(0n, 7n), size: fc.integer({ min: 0, max: 3 }) })
  .map(({ family, offset, size }) => new Network(family, bases[family] + offset, (family === 4 ? 32 : 128) - size));

const ports: fc.Arbitrary<Ports | null> = fc.option(
  fc
    .record({
      type: fc.constantFrom('tcp', 'udp'),
      a: fc.integer({ min: 0, max: highestPort }),
      b: fc.integer({ min: 0, max: highestPort }),
    })
    .map(({ type, a, b }) => ({ type, low: Math.min(a, b), high: Math.max(a, b) })),
  { freq: 2 },
);

export const ruleArbitrary: fc.Arbitrary<Rule> = fc.record({
  action: fc.constantFrom('accept', 'drop'),
  destination: network,
  ports,
  userId: fc.constantFrom(null, null, ...users),
});

export const rulesArbitrary: fc.Arbitrary<readonly Rule[]> = fc.array(ruleArbitrary, { maxLength: 10 });

/** Every packet of the universe, from nobody, the given users, and one address and port beyond all rules. */
export function* packets(sources: readonly (string | null)[]): Generator<Packet> {
  for (const user of sources) {
    for (const family of [4, 6] as const) {
      for (let offset = -1n; offset <= 8n; offset++) {
        const address = new Network(family, bases[family] + offset, family === 4 ? 32 : 128);
        for (const protocol of ['tcp', 'udp', 'other'] as const) {
          for (let port = 0; port <= (protocol === 'other' ? 0 : highestPort + 1); port++) {
            yield { user, address, protocol, port };
          }
        }
      }
    }
  }
}

/** The rule that decides, by trying them all: lowest rank first. */
export function decidingRank(rules: readonly Rule[], packet: Packet): number {
  return Math.min(8, ...rules.filter((rule) => matches(rule, packet)).map(getRank));
}

/** The verdict, by trying all rules. */
export function accepts(rules: readonly Rule[], packet: Packet): boolean {
  return decidingRank(rules, packet) % 2 === 0;
}

/** A packet as a key for sets of packets. */
export function packetKey({ user, address, protocol, port }: Packet): string {
  return `${user} ${address.text} ${protocol} ${port}`;
}

/** Every packet of the universe that the traffic holds, as sorted keys; ports beyond the universe count as its last. */
export function expandTraffic(traffic: readonly Traffic[]): string[] {
  const keys: string[] = [];
  for (const { user, destinations, protocol, ports } of traffic) {
    for (const { first, last, family } of destinations.map(networkNamed)) {
      for (let number = first; number <= last; number++) {
        const address = new Network(family, number, family === 4 ? 32 : 128);
        for (const { low, high } of ports ?? [{ low: 0, high: 0 }]) {
          for (let port = low; port <= Math.min(high, highestPort + 1); port++) {
            keys.push(packetKey({ user, address, protocol, port }));
          }
        }
      }
    }
  }
  return keys.sort();
}

/** The network that the text names; the text must be canonical. */
export function networkNamed(text: string): Network {
  const parsed = parseNetwork(text);
  if (!parsed.ok || parsed.value.network.text !== text) throw new Error(`${text} is no canonical network`);
  return parsed.value.network;
}
