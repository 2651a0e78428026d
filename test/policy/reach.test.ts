import fc from 'fast-check';
import { expect, it } from 'vitest';
import { contains, Network, parseNetwork } from '../../src/model/address.ts';
import type { Rule } from '../../src/model/rule.ts';
import type { Protocol } from '../../src/model/state.ts';
import { decide } from '../../src/policy/decide-packet.ts';
import { computeReach, restrictTraffic } from '../../src/policy/reach.ts';
import { indexRules } from '../../src/policy/rule-index.ts';
import type { Traffic } from '../../src/policy/traffic.ts';
import { runs } from '../property/runs.ts';
import { ruleOf } from '../report/support.ts';

const users = ['a', 'b', 'c'].map((start) => `${start}1520c4b-adc3-4574-932a-94461cf85c07`);

/** Networks that nest, meet and part, of any length. */
const anyNetwork = fc.oneof(
  fc.record({ last: fc.nat(2 ** 16 - 1), prefix: fc.integer({ min: 8, max: 32 }) }).map(({ last, prefix }) => {
    const first = (0x0a00_0000 + last) & (-1 << (32 - prefix));
    return `${[24, 16, 8, 0].map((bits) => (first >>> bits) & 255).join('.')}/${prefix}`;
  }),
  fc.constantFrom('0.0.0.0/0', '10.128.0.0/9', '::/0', 'fd00::/8', 'fd00::1', 'fd00::/127'),
);
const anyRule: fc.Arbitrary<Rule> = fc
  .record({
    action: fc.constantFrom('accept', 'drop'),
    destination: anyNetwork,
    ports: fc.constantFrom('', '', ' tcp 443', ' tcp 1-65534', ' tcp 400-500', ' udp 53'),
    user: fc.constantFrom('', ...users.slice(0, 2).map((id) => ` for ${id}`)),
  })
  .map(({ action, destination, ports, user }) => ruleOf(`${action} ${destination}${ports}${user}`));

const networkOf = (text: string) => {
  const parsed = parseNetwork(text);
  if (!parsed.ok) throw new Error(text);
  return parsed.value.network;
};

interface Asked {
  readonly user: string | null;
  readonly address: Network;
  readonly protocol: Protocol;
  readonly port: number;
}

function holds(traffic: readonly Traffic[], { user: own, address, protocol: kind, port }: Asked): boolean {
  return traffic.some(
    ({ user, protocol, ports, destinations }) =>
      user === own &&
      protocol === kind &&
      (ports === null || ports.some(({ low, high }) => low <= port && port <= high)) &&
      destinations.some((text) => contains(networkOf(text), address)),
  );
}

/** Packets at the edges of the rules' networks and ports, right inside and right outside, and some far from all. */
const anyPacket = fc.record({
  user: fc.constantFrom(null, ...users),
  near: fc.nat(),
  step: fc.constantFrom(-1n, 0n, 0n, 1n),
  end: fc.constantFrom('first', 'last'),
  far: fc.option(fc.nat(2 ** 16 - 1), { freq: 3 }),
  protocol: fc.constantFrom<Protocol>('tcp', 'tcp', 'udp', 'other'),
  port: fc.constantFrom(0, 1, 52, 53, 54, 399, 400, 442, 443, 444, 500, 501, 65_534, 65_535),
});

type Packet = typeof anyPacket extends fc.Arbitrary<infer T> ? T : never;

function addressOf(rules: readonly Rule[], { near, step, end, far }: Packet): Network {
  const { family, [end]: edge } = rules[near % Math.max(1, rules.length)]?.destination ?? networkOf('10.0.0.0');
  const width = family === 4 ? 32 : 128;
  const value = far === null ? BigInt.asUintN(width, edge + step) : BigInt(0x0a00_0000 + far);
  return new Network(family, value, width);
}

// 100 packets in each of at least 100 policies: `runs` gives a twentieth of its number.
it('what people reach is what each of 10,000 packets gets, both ways round, and a part of it is that part', () => {
  fc.assert(
    fc.property(
      fc.array(anyRule, { maxLength: 8 }),
      fc.array(anyPacket, { minLength: 100, maxLength: 100 }),
      anyNetwork,
      (rules, packets, within) => {
        const reach = computeReach(rules);
        const named = new Map(users.map((user) => [user, computeReach(rules, { users: new Set([user]) })] as const));
        const reachOf = (user: string) => named.get(user) ?? reach;
        const own = new Set(rules.flatMap(({ userId }) => userId ?? []));
        const index = indexRules(rules.map((rule) => ({ rule })));
        const part = { network: networkOf(within), protocol: 'tcp' as const, ports: { low: 1, high: 443 } };
        const partly = restrictTraffic(reach.accepted, part);
        for (const packet of packets) {
          const { user, protocol, port } = packet;
          const address = addressOf(rules, packet);
          const { verdict } = decide(index, { user, address, protocol, port });
          const asked = { user: user !== null && own.has(user) ? user : null, address, protocol, port };
          const isIn = (traffic: readonly Traffic[]): boolean => holds(traffic, asked);
          expect([isIn(reach.accepted), isIn(reach.dropped)]).toEqual([verdict === 'accept', verdict === 'drop']);
          // Somebody who is asked about by name is answered for by name, with rules of their own or without.
          const theirs = user === null ? reach : reachOf(user);
          const isOwn = (traffic: readonly Traffic[]): boolean => holds(traffic, { user, address, protocol, port });
          expect([isOwn(theirs.accepted), isOwn(theirs.dropped)]).toEqual([verdict === 'accept', verdict === 'drop']);
          const isInPart = protocol === 'tcp' && port >= 1 && port <= 443 && contains(part.network, address);
          expect(isIn(partly)).toBe(isInPart && verdict === 'accept');
        }
      },
    ),
    { numRuns: runs(1000) },
  );
});
