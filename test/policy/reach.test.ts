import fc from 'fast-check';
import { expect, it } from 'vitest';
import { parseNetwork } from '../../src/model/address.ts';
import type { Rule } from '../../src/model/rule.ts';
import type { Protocol } from '../../src/model/state.ts';
import { decide } from '../../src/policy/decide-packet.ts';
import { computeReach, restrictTraffic } from '../../src/policy/reach.ts';
import { indexRules } from '../../src/policy/rule-index.ts';
import type { Traffic } from '../../src/policy/traffic.ts';
import { runs } from '../property/runs.ts';
import { ruleOf } from '../report/support.ts';

const users = ['a', 'b'].map((start) => `${start}1520c4b-adc3-4574-932a-94461cf85c07`);
const anyRule: fc.Arbitrary<Rule> = fc
  .record({
    action: fc.constantFrom('accept', 'drop'),
    destination: fc.constantFrom(
      '10.0.0.0/8',
      '10.0.0.0/30',
      '10.0.0.1',
      '10.128.0.0/9',
      '::/0',
      'fd00::/8',
      '0.0.0.0/0',
    ),
    ports: fc.constantFrom('', ' tcp 443', ' tcp 1-65534', ' udp 53'),
    user: fc.constantFrom('', ...users.map((id) => ` for ${id}`)),
  })
  .map(({ action, destination, ports, user }) => ruleOf(`${action} ${destination}${ports}${user}`));

const networkOf = (text: string) => {
  const parsed = parseNetwork(text);
  if (!parsed.ok) throw new Error(text);
  return parsed.value.network;
};

function holds(
  traffic: readonly Traffic[],
  packet: { user: string | null; address: string; protocol: Protocol; port: number },
): boolean {
  const { first, family } = networkOf(packet.address);
  return traffic.some(
    ({ user, protocol, ports, destinations }) =>
      user === packet.user &&
      protocol === packet.protocol &&
      (ports === null || ports.some(({ low, high }) => low <= packet.port && packet.port <= high)) &&
      destinations
        .map(networkOf)
        .some((network) => network.family === family && network.first <= first && first <= network.last),
  );
}

const anyPacket = fc.record({
  user: fc.constantFrom(null, ...users),
  address: fc.constantFrom('10.0.0.0', '10.0.0.1', '10.0.0.4', '10.128.0.1', '11.0.0.1', 'fd00::1', 'fe80::1'),
  protocol: fc.constantFrom<Protocol>('tcp', 'udp', 'other'),
  port: fc.constantFrom(0, 1, 53, 443, 444, 65_535),
});

it('what people reach is what each packet gets, both ways round, and a part of it is that part', () => {
  fc.assert(
    fc.property(
      fc.array(anyRule, { maxLength: 7 }),
      fc.array(anyPacket, { minLength: 40, maxLength: 40 }),
      (rules, packets) => {
        const reach = computeReach(rules);
        const own = new Set(rules.flatMap(({ userId }) => userId ?? []));
        const index = indexRules(rules.map((rule) => ({ rule })));
        const part = { network: networkOf('10.0.0.0/9'), protocol: 'tcp' as const, ports: { low: 1, high: 443 } };
        for (const packet of packets) {
          const known = { ...packet, user: packet.user !== null && own.has(packet.user) ? packet.user : null };
          const verdict = decide(index, { ...packet, address: networkOf(packet.address) }).verdict;
          expect([holds(reach.accepted, known), holds(reach.dropped, known)]).toEqual([
            verdict === 'accept',
            verdict === 'drop',
          ]);
          const inPart =
            packet.protocol === 'tcp' && packet.port >= 1 && packet.port <= 443 && /^10\.0\./.test(packet.address);
          expect(holds(restrictTraffic(reach.accepted, part), known)).toBe(inPart && verdict === 'accept');
        }
      },
    ),
    { numRuns: runs(1000) },
  );
});
