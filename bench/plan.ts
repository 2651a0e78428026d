import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { findProfile } from '../src/model/profile.ts';
import { type Rule, toWire } from '../src/model/rule.ts';
import { wholeScope } from '../src/model/state.ts';
import { decideRules } from '../src/plan/decide.ts';
import { defaultPlanOptions, type PlanInput } from '../src/plan/input.ts';
import { makePlan } from '../src/plan/make-plan.ts';
import { findExposure } from '../src/plan/order/exposure.ts';
import { orderOperations } from '../src/plan/order/order.ts';
import { listOperations } from '../src/plan/plan.ts';
import { lint } from '../src/policy/lint/lint.ts';
import { bareMemory, costOf, type FigureBench, linesOf, once } from './figure.ts';
import { allChanged, desiredOf, fivePercent, liveOf, oneAddress } from './plan-world.ts';
import { portsOverHosts, portsOverNestedNetworks, type World, worlds } from './worlds.ts';

function inputOf({ before, after }: World): PlanInput {
  const state = { configuration: null, userNames: new Map<string, string>(), tests: [], digest: '' };
  return {
    desired: { ...state, rules: desiredOf(after) },
    live: { rules: liveOf(before), configuration: null },
    base: null,
    profile: findProfile('firezone-0.7'),
    scope: wholeScope,
    options: { ...defaultPlanOptions, maxDeletes: { share: 1 }, maxChanges: { share: 1 }, allowEmpty: true },
  };
}

/** Match, diff, decide and order: the engine alone. */
function engine(input: PlanInput): void {
  const changes = decideRules(input);
  const kept = changes.flatMap(({ action, live }) => (action === 'keep' && live !== null ? [live.rule] : []));
  orderOperations({ operations: listOperations(changes, input.profile), kept, profile: input.profile });
}

/** Time of ordering and of finding what the order exposes. */
function exposure(input: PlanInput): void {
  const changes = decideRules(input);
  const rulesOf = (side: 'live' | 'desired'): readonly Rule[] =>
    changes.flatMap((change) => (change[side] === null ? [] : [change[side].rule]));
  const kept = changes.flatMap(({ action, live }) => (action === 'keep' && live !== null ? [live.rule] : []));
  const order = orderOperations({ operations: listOperations(changes, input.profile), kept, profile: input.profile });
  findExposure({ order, before: rulesOf('live'), after: rulesOf('desired'), profile: input.profile });
}

/** The least for an answer about rules: reading them. */
function readJson({ before, after }: World): () => void {
  const texts = [before, after].map((rules) => JSON.stringify({ data: rules.map(toWire) }));
  return () => {
    for (const text of texts) JSON.parse(text);
  };
}

function unchanged(count: number): World {
  const { before } = fivePercent(count);
  return { before, after: before };
}

function lines(
  name: string,
  limit: number,
  world: World,
  work: (input: PlanInput) => unknown,
  times = 5,
): readonly FigureBench[] {
  return linesOf({ name, counts: 'ours', limit }, () => {
    const input = inputOf(world);
    return { ours: costOf(() => work(input), times), floor: costOf(readJson(world), times) };
  });
}

type Planned = ReturnType<typeof costOf> & { readonly mb: number };

const [, , asked, worldName = '', size = '1', side] = process.argv;

/** A plan in a process of its own. */
function planAlone(name: string, scale: number, side: 'changed' | 'in sync'): Planned {
  const args = [fileURLToPath(import.meta.url), '--world', name, String(scale), side];
  return JSON.parse(spawnSync(process.execPath, args, { encoding: 'utf8' }).stdout) as Planned;
}

if (asked === '--world') {
  const world = worlds[worldName]?.(Number(size)) ?? { before: [], after: [] };
  const input = inputOf(side === 'changed' ? world : { ...world, before: world.after });
  const cost = costOf(() => makePlan(input));
  process.stdout.write(JSON.stringify({ ...cost, mb: process.resourceUsage().maxRSS / 1024 }));
}

/** A world that no ordinary repository looks like, beside a plan of as many rules in sync, and beside half of it. */
function linesOfWorld(name: string): readonly FigureBench[] {
  const [changed, inSync, twice] = [
    once(() => planAlone(name, 1, 'changed')),
    once(() => planAlone(name, 1, 'in sync')),
    once(() => planAlone(name, 2, 'changed')),
  ];
  return [
    ...linesOf({ name: `a plan of ${name}, over 1.5 × that of as many in sync`, counts: 'over', limit: 1_000 }, () => {
      const { cpu, wall } = inSync();
      return { ours: changed(), floor: { cpu: 1.5 * cpu, wall: 1.5 * wall } };
    }),
    {
      name: `memory of a plan of ${name}, over 1.3 × that of as many in sync`,
      unit: 'MB',
      counts: 'over',
      limit: 60,
      measure: () => ({ ours: changed().mb, floor: 1.3 * inSync().mb }),
    },
    {
      name: `CPU of a plan of twice as many as ${name}`,
      unit: 'ms',
      counts: 'ratio',
      limit: 2.3,
      measure: () => ({ ours: twice().cpu, floor: changed().cpu }),
    },
  ];
}

const plan = (input: PlanInput): unknown => makePlan(input);
const lintAfter = ({ desired }: PlanInput): unknown => lint(desired);

/** The planner's figures. The limits are those that docs/explanation/planning.md promises. */
export const benches: readonly FigureBench[] = [
  ...lines('engine, 10,000 rules, none changed', 100, unchanged(10_000), engine),
  ...lines('engine, 10,000 rules, 5% changed', 100, fivePercent(10_000), engine),
  ...lines('engine, 100,000 rules, 5% changed', 1_500, fivePercent(100_000), engine, 3),
  ...lines('engine, 100,000 rules, all changed, 2,000 related', 5_000, allChanged(100_000, 2_000), engine, 1),
  ...lines('exposure, 10,000 rules, 5% changed', 2_000, fivePercent(10_000), exposure),
  ...lines('whole plan, 10,000 rules, 5% changed', 4_000, fivePercent(10_000), plan),
  ...lines('whole plan, 30,000 port rules on one address, 5% changed', 4_000, oneAddress(30_000), plan, 3),
  ...Object.keys(worlds).flatMap(linesOfWorld),
  ...(
    [
      ['3,000 port rules over 3,000 nested networks', portsOverNestedNetworks(3_000)],
      ['1,000 port rules over 10,000 hosts', portsOverHosts(10_000)],
    ] as const
  ).flatMap(([name, after]) => lines(`a lint of ${name}`, 1_000, { before: [], after }, lintAfter, 1)),
  {
    name: 'memory of the planner so far',
    unit: 'MB',
    counts: 'ours',
    limit: 1_024,
    measure: () => ({ ours: process.resourceUsage().maxRSS / 1024, floor: bareMemory() }),
  },
];
