import { makeNetwork } from '../src/model/address.ts';
import type { Rule } from '../src/model/rule.ts';
import type { PolicyCase } from '../src/model/state.ts';
import { decide } from '../src/policy/decide-packet.ts';
import { computeEffect } from '../src/policy/effect.ts';
import { lint } from '../src/policy/lint/lint.ts';
import { indexRules } from '../src/policy/rule-index.ts';
import { runPolicyTests } from '../src/policy/tests.ts';
import type { Bench } from './plan.ts';
import { desiredOf, fivePercent, oneAddress, randomStream } from './plan-world.ts';

/** Rules that overlap as those of a grown policy do: nested networks, half of them with ports, half of them of 500 users. */
function overlapping(count: number): { readonly before: readonly Rule[]; readonly after: readonly Rule[] } {
  const random = randomStream(3);
  const below = (limit: number): number => Math.floor(random() * limit);
  const draw = (): Rule => {
    const low = 1 + below(60_000);
    const user = `00000000-0000-4000-8000-${String(below(500)).padStart(12, '0')}`;
    return {
      action: random() < 0.5 ? 'accept' : 'drop',
      destination: makeNetwork(4, BigInt(0x0a000000 + below(2 ** 22)), 32 - below(12)),
      ports: random() < 0.5 ? null : { type: random() < 0.7 ? 'tcp' : 'udp', low, high: low + below(1000) },
      userId: random() < 0.5 ? null : user,
    };
  };
  const before = Array.from({ length: count }, draw);
  return { before, after: before.map((rule, n) => (n % 20 === 0 ? draw() : rule)) };
}

function median(work: () => void, times = 5): number {
  const taken = Array.from({ length: times }, () => {
    const start = performance.now();
    work();
    return performance.now() - start;
  });
  return taken.sort((a, b) => a - b)[Math.floor(times / 2)] ?? 0;
}

/** 10,000 verdicts, the index built before. */
function verdicts(count: number): number {
  const index = indexRules(overlapping(count).before.map((rule) => ({ rule })));
  const random = randomStream(5);
  const packets = Array.from({ length: 10_000 }, () => ({
    user: null,
    address: makeNetwork(4, BigInt(0x0a000000 + Math.floor(random() * 2 ** 22)), 32),
    protocol: 'tcp' as const,
    port: 1 + Math.floor(random() * 60_000),
  }));
  return median(() => {
    for (const packet of packets) decide(index, packet);
  });
}

/** 100 cases, each about a network of 65,536 addresses and any user. */
function policyTests(count: number): number {
  const rules = desiredOf(overlapping(count).before);
  const cases = Array.from({ length: 100 }, (_, n): PolicyCase => {
    const place = { file: 'tests.yaml', line: n + 1, column: 1 };
    const destination = makeNetwork(4, BigInt(0x0a000000 + n * 65_536), 16);
    const ports = { low: 0, high: 65_535 };
    return {
      name: `${n}`,
      place,
      user: 'any',
      destination,
      protocols: ['other'],
      ports,
      expect: 'accept',
      always: false,
    };
  });
  return median(() => void runPolicyTests(cases, rules, { min: 1, max: 65_534 }));
}

function lintTime(before: readonly Rule[]): number {
  const rules = desiredOf(before);
  const desired = { rules, configuration: null, userNames: new Map(), tests: [], digest: '' };
  return median(() => void lint(desired), 3);
}

/** The figures of 1,000 and 10,000 rules. The limits at 10,000 are those that docs/explanation/policy.md promises. */
const bySize: readonly Bench[] = [1_000, 10_000].flatMap((count): readonly Bench[] => {
  const rules = `${count.toLocaleString('en')} rules`;
  const plain = fivePercent(count);
  const nested = overlapping(count);
  return [
    { name: `10,000 verdicts under ${rules}`, unit: 'ms', limit: 200, measure: () => verdicts(count) },
    {
      name: `effect, ${rules}, 5% changed`,
      unit: 'ms',
      limit: 2_000,
      measure: () => median(() => void computeEffect(plain.before, plain.after)),
    },
    {
      name: `effect, ${rules} that overlap, 500 users, 5% changed`,
      unit: 'ms',
      limit: 2_000,
      measure: () => median(() => void computeEffect(nested.before, nested.after)),
    },
    { name: `lint, ${rules} that overlap`, unit: 'ms', limit: 1_500, measure: () => lintTime(nested.before) },
    { name: `100 policy tests, ${rules} that overlap`, unit: 'ms', limit: 1_000, measure: () => policyTests(count) },
    {
      name: `memory after ${rules}`,
      unit: 'MB',
      limit: 500,
      measure: () => process.resourceUsage().maxRSS / 1024,
    },
  ];
});

export const benches: readonly Bench[] = [
  ...bySize,
  {
    name: 'lint, 30,000 port rules on one address',
    unit: 'ms',
    limit: 1_500,
    measure: () => lintTime(oneAddress(30_000).before),
  },
];
