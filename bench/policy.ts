import { Network } from '../src/model/address.ts';
import { type Rule, toWire } from '../src/model/rule.ts';
import type { PolicyCase } from '../src/model/state.ts';
import { decide } from '../src/policy/decide-packet.ts';
import { computeEffect } from '../src/policy/effect.ts';
import { lint } from '../src/policy/lint/lint.ts';
import { indexRules } from '../src/policy/rule-index.ts';
import { runPolicyTests } from '../src/policy/tests.ts';
import { bareMemory, type Costs, costOf, type FigureBench, linesOf } from './figure.ts';
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
      destination: new Network(4, BigInt(0x0a000000 + below(2 ** 22)), 32 - below(12)),
      ports: random() < 0.5 ? null : { type: random() < 0.7 ? 'tcp' : 'udp', low, high: low + below(1000) },
      userId: random() < 0.5 ? null : user,
    };
  };
  const before = Array.from({ length: count }, draw);
  return { before, after: before.map((rule, n) => (n % 20 === 0 ? draw() : rule)) };
}

/** Beside the least for an answer about rules: reading them. */
function besideReading(rules: readonly Rule[], work: () => unknown, times = 5): Costs {
  const text = JSON.stringify({ data: rules.map(toWire) });
  return { ours: costOf(work, times), floor: costOf(() => JSON.parse(text), times) };
}

/** 10,000 verdicts, the index built before. */
function verdicts(count: number): Costs {
  const { before } = overlapping(count);
  const index = indexRules(before.map((rule) => ({ rule })));
  const random = randomStream(5);
  const packets = Array.from({ length: 10_000 }, () => ({
    user: null,
    address: new Network(4, BigInt(0x0a000000 + Math.floor(random() * 2 ** 22)), 32),
    protocol: 'tcp' as const,
    port: 1 + Math.floor(random() * 60_000),
  }));
  return besideReading(before, () => {
    for (const packet of packets) decide(index, packet);
  });
}

/** 100 cases, each about a network of 65,536 addresses and any user. */
function policyTests(count: number): Costs {
  const { before } = overlapping(count);
  const rules = desiredOf(before);
  const cases = Array.from({ length: 100 }, (_, n): PolicyCase => {
    const place = { file: 'tests.yaml', line: n + 1, column: 1 };
    const destination = new Network(4, BigInt(0x0a000000 + n * 65_536), 16);
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
  return besideReading(before, () => runPolicyTests(cases, rules, { low: 1, high: 65_534 }));
}

function lintTime(before: readonly Rule[]): Costs {
  const rules = desiredOf(before);
  const desired = { rules, configuration: null, userNames: new Map(), tests: [], digest: '' };
  return besideReading(before, () => lint(desired), 3);
}

function effectTime({ before, after }: ReturnType<typeof fivePercent>): Costs {
  return besideReading([...before, ...after], () => computeEffect(before, after));
}

function lines(name: string, limit: number, measure: () => Costs): readonly FigureBench[] {
  return linesOf({ name, counts: 'ours', limit }, measure);
}

/** The figures of 1,000 and 10,000 rules. The limits at 10,000 are those that docs/explanation/policy.md promises. */
const bySize: readonly FigureBench[] = [1_000, 10_000].flatMap((count): readonly FigureBench[] => {
  const rules = `${count.toLocaleString('en')} rules`;
  return [
    ...lines(`10,000 verdicts under ${rules}`, 200, () => verdicts(count)),
    ...lines(`effect, ${rules}, 5% changed`, 2_000, () => effectTime(fivePercent(count))),
    ...lines(`effect, ${rules} that overlap, 500 users, 5% changed`, 2_000, () => effectTime(overlapping(count))),
    ...lines(`lint, ${rules} that overlap`, 1_500, () => lintTime(overlapping(count).before)),
    ...lines(`100 policy tests, ${rules} that overlap`, 1_000, () => policyTests(count)),
    {
      name: `memory after ${rules}`,
      unit: 'MB',
      counts: 'ours',
      limit: 500,
      measure: () => ({ ours: process.resourceUsage().maxRSS / 1024, floor: bareMemory() }),
    },
  ];
});

export const benches: readonly FigureBench[] = [
  ...bySize,
  ...lines('lint, 30,000 port rules on one address', 1_500, () => lintTime(oneAddress(30_000).before)),
];
