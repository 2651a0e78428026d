import { execFileSync } from 'node:child_process';
import { createNftEnforcement } from '../src/adapters/enforcement/nft.ts';
import { Network } from '../src/model/address.ts';
import type { LiveRule, Rule } from '../src/model/rule.ts';
import { createNftTable } from '../src/simulator/nft.ts';
import { makeSeedRow } from '../src/simulator/rules/rule.ts';
import { addNamespace, deleteNamespaces, kernelUnavailable, pathOf } from '../test/enforcement/support/namespace.ts';
import { awaitedCost, type Cost, type FigureBench, linesOf, once } from './figure.ts';

const users = ['a1520c4b-adc3-4574-932a-94461cf85c07', 'b9692cfa-f429-4ea6-947f-ad22d40fd18b', null, null];
const time = '2026-01-01T00:00:00.000000Z';

/** Rules of every kind: two families, both actions, with and without ports, global and of two users. */
function ruleAt(index: number): Rule {
  const six = index % 5 === 0;
  const address = six ? (0x20010db8n << 96n) + BigInt(index) * 256n : BigInt(0x0a000000 + index * 256);
  return {
    action: index % 3 === 0 ? 'accept' : 'drop',
    destination: new Network(six ? 6 : 4, address, six ? 120 : 24),
    ports: index % 4 === 1 ? { type: 'tcp', low: 80, high: 443 } : null,
    userId: users[index % users.length] ?? null,
  };
}

function liveOf(count: number): readonly LiveRule[] {
  return Array.from({ length: count }, (_, index) => {
    const rule = ruleAt(index);
    return { id: `r${index}`, rule, destinationText: rule.destination.text, insertedAt: time, updatedAt: time };
  });
}

/** Fills a table with these rules, runs the work, and removes the namespace. */
async function withTable<T>(rules: readonly LiveRule[], work: (netns: string) => Promise<T>): Promise<T> {
  const netns = addNamespace();
  try {
    const table = createNftTable({ netns: pathOf(netns) });
    await table.reset(users.filter((user) => user !== null));
    for (const { id, rule } of rules) {
      const { ports, userId, action, destination } = rule;
      const portRange = ports === null ? null : `${ports.low} - ${ports.high}`;
      const seed = { action, destination: destination.text, user_id: userId, port_range: portRange };
      await table.add(makeSeedRow({ ...seed, port_type: ports?.type ?? null }, id, time));
    }
    return await work(pathOf(netns));
  } finally {
    deleteNamespaces(netns);
  }
}

const rounds = 9;

/** nft and the check, from the call to the report; `missing` of the rules are not in the kernel. */
function checkTime(count: number, missing: number): Promise<Cost> {
  const live = liveOf(count);
  const expected = missing === 0 ? 'enforced' : 'differs';
  return withTable(live.slice(missing), (netns) => {
    const enforcement = createNftEnforcement({ netns, timeoutMs: 30_000 });
    return awaitedCost(async () => {
      const report = await enforcement.check(live, new Map(), new AbortController().signal);
      if (report.state !== expected) throw new Error(`the check found ${report.state}: ${report.message ?? ''}`);
    }, rounds);
  });
}

/** The floor: nft alone, and what it says read as JSON. */
const listTime = once(() =>
  withTable(liveOf(1000), (netns) => {
    const list = [`--net=${netns}`, '--', 'nft', '-j', 'list', 'table', 'inet', 'firezone'];
    return awaitedCost(
      async () => JSON.parse(execFileSync('nsenter', list, { encoding: 'utf8', maxBuffer: 1e9 })),
      rounds,
    );
  }),
);

function lines(name: string, missing: number): readonly FigureBench[] {
  return linesOf({ name, counts: 'ours', limit: 300 }, async () => ({
    floor: await listTime(),
    ours: await checkTime(1000, missing),
  }));
}

/** The figures; none where namespaces are not permitted. */
export const enforcementBenches: readonly FigureBench[] =
  kernelUnavailable === null
    ? [...lines('check 1,000 rules against the kernel', 0), ...lines('the same, 50 of them missing', 50)]
    : [];
