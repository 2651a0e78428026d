import fc from 'fast-check';
import { Network, parseNetwork } from '../../src/model/address.ts';
import { collides, formatRuleKey, type LiveRule, type Rule, toWire } from '../../src/model/rule.ts';
import type { Protocol } from '../../src/model/state.ts';
import type { Plan } from '../../src/plan/plan.ts';
import type { Traffic } from '../../src/policy/traffic.ts';
import { defaultVerdict, getRank, getVerdict, matches, type Packet } from '../../src/policy/verdict.ts';
import type { RuleSeed } from '../../src/simulator/rules/rule.ts';
import type { Simulator } from '../../src/simulator/server.ts';

/** A small world: eight hosts, two users, a few ports; everything in it overlaps often. */
export const users = ['11111111-1111-4111-8111-111111111111', '22222222-2222-4222-8222-222222222222'] as const;

const base = 0x0a000000n;

const network = fc
  .tuple(fc.integer({ min: 29, max: 32 }), fc.integer({ min: 0, max: 7 }))
  .map(([prefix, host]) => new Network(4, base + BigInt(host), prefix));

const ports = fc.oneof(
  { weight: 3, arbitrary: fc.constant(null) },
  {
    weight: 2,
    arbitrary: fc
      .tuple(
        fc.constantFrom('tcp' as const, 'udp' as const),
        fc.integer({ min: 80, max: 83 }),
        fc.integer({ min: 0, max: 2 }),
      )
      .map(([type, low, more]) => ({ type, low, high: low + more })),
  },
);

export const anyRule: fc.Arbitrary<Rule> = fc.record({
  action: fc.constantFrom('accept' as const, 'drop' as const),
  destination: network,
  ports,
  userId: fc.oneof({ weight: 2, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: fc.constantFrom(...users) }),
});

/** Rules that the server can hold together: the first of each two that collide. */
function ruleSet(maxLength: number): fc.Arbitrary<readonly Rule[]> {
  return fc.array(anyRule, { maxLength }).map((rules) => {
    const kept: Rule[] = [];
    for (const rule of rules) if (!kept.some((other) => collides(other, rule))) kept.push(rule);
    return kept;
  });
}

/** A live set and a desired set that share some rules. */
export const pair: fc.Arbitrary<readonly [readonly Rule[], readonly Rule[]]> = fc
  .tuple(ruleSet(6), ruleSet(7), ruleSet(7))
  .map(([shared, live, desired]) => {
    const extend = (more: readonly Rule[]): readonly Rule[] => {
      const kept = [...shared];
      for (const rule of more) if (!kept.some((other) => collides(other, rule))) kept.push(rule);
      return kept;
    };
    return [extend(live), extend(desired)] as const;
  });

export function seedOf(rule: Rule): RuleSeed {
  const { action, destination, port_range, port_type, user_id } = toWire(rule);
  return {
    action,
    destination,
    port_range,
    port_type: port_type === 'tcp' || port_type === 'udp' ? port_type : null,
    user_id,
  };
}

const protocols: readonly (readonly [Protocol, number])[] = [
  ['tcp', 80],
  ['tcp', 82],
  ['tcp', 84],
  ['udp', 81],
  ['other', 0],
];

/** Every packet that rules of this world can tell apart, or nearly. */
export const packets: readonly Packet[] = [null, ...users].flatMap((user) =>
  Array.from({ length: 9 }, (_, host) => new Network(4, base + BigInt(host), 32)).flatMap((address) =>
    protocols.map(([protocol, port]) => ({ user, address, protocol, port })),
  ),
);

export function verdicts(rules: readonly Rule[]): readonly string[] {
  return packets.map((packet) => {
    const ranks = rules.filter((rule) => matches(rule, packet)).map(getRank);
    return ranks.length === 0 ? defaultVerdict : getVerdict(Math.min(...ranks) as 0);
  });
}

/** What the simulator's packet filter does with every packet: its own implementation, not ours. */
export function filterVerdicts(simulator: Simulator): readonly string[] {
  return packets.map(({ user, address, protocol, port }) =>
    simulator.filter.verdict({
      user,
      destination: address.text,
      protocol,
      ...(protocol === 'other' ? {} : { port }),
    }),
  );
}

/** Whether the plan's exposure lists the packet in that direction. */
export function exposed(plan: Plan, packet: Packet, verdict: string): boolean {
  const direction = verdict === 'accept' ? 'opened' : 'cut_off';
  const named = plan.changes.some(
    (change) => change.kind === 'Rule' && [ownerOf(change.desired), ownerOf(change.live)].includes(packet.user),
  );
  const seen = named ? packet : { ...packet, user: null }; // to the filter, who has no rules is nobody
  return plan.exposure.some(
    (one) => one.direction === direction && one.traffic.some((traffic) => holds(traffic, seen)),
  );
}

function ownerOf(one: { readonly rule: Rule } | null): string | null {
  return one?.rule.userId ?? null;
}

function holds(traffic: Traffic, packet: Packet): boolean {
  if (traffic.user !== packet.user || traffic.protocol !== packet.protocol) return false;
  const ports = traffic.ports;
  if (ports !== null && !ports.some(({ low, high }) => low <= packet.port && packet.port <= high)) return false;
  return traffic.destinations.some((text) => {
    const parsed = parseNetwork(text);
    if (!parsed.ok) return false;
    const { first, last, family } = parsed.value.network;
    return family === packet.address.family && first <= packet.address.first && packet.address.first <= last;
  });
}

export function sortedKeys(rules: readonly (Rule | LiveRule)[]): readonly string[] {
  return rules.map((one) => formatRuleKey('rule' in one ? one.rule : one)).sort();
}

export function describePacket({ user, address, protocol, port }: Packet): string {
  return `${user ?? 'nobody'} -> ${address.text} ${protocol}/${port}`;
}
