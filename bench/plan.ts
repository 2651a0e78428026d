import { findProfile } from '../src/model/profile.ts';
import type { Rule } from '../src/model/rule.ts';
import { wholeScope } from '../src/model/state.ts';
import { decideRules } from '../src/plan/decide.ts';
import { defaultPlanOptions, type PlanInput } from '../src/plan/input.ts';
import { makePlan } from '../src/plan/make-plan.ts';
import { listOperations } from '../src/plan/operations.ts';
import { findExposure } from '../src/plan/order/exposure.ts';
import { orderOperations } from '../src/plan/order/order.ts';
import { lint } from '../src/policy/lint/lint.ts';
import { allChanged, desiredOf, fivePercent, liveOf, oneAddress } from './plan-world.ts';
import {
  flippedForUsers,
  gapsForUsers,
  movedRanges,
  nestedFlip,
  portsOverHosts,
  portsOverNestedNetworks,
  redrawnPorts,
  type World,
} from './worlds.ts';

/** One figure with its limit; `measure` returns it after as many runs as it takes. */
export interface Bench {
  readonly name: string;
  readonly unit: 'ms' | 'MB' | '×';
  readonly limit: number;
  readonly measure: () => number;
}

const runs = 5;

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

function median(world: World, work: (input: PlanInput) => void, times: number = runs): number {
  const input = inputOf(world);
  const taken = Array.from({ length: times }, () => {
    const start = performance.now();
    work(input);
    return performance.now() - start;
  });
  return taken.sort((a, b) => a - b)[Math.floor(times / 2)] ?? 0;
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

/** CPU time of the work, ms. */
function cpuOf(work: () => unknown): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

function unchanged(count: number): World {
  const { before } = fivePercent(count);
  return { before, after: before };
}

/** The planner's figures. The limits are those that docs/explanation/planning.md promises. */
export const benches: readonly Bench[] = [
  {
    name: 'engine, 10,000 rules, none changed',
    unit: 'ms',
    limit: 100,
    measure: () => median(unchanged(10_000), engine),
  },
  {
    name: 'engine, 10,000 rules, 5% changed',
    unit: 'ms',
    limit: 100,
    measure: () => median(fivePercent(10_000), engine),
  },
  {
    name: 'engine, 100,000 rules, 5% changed',
    unit: 'ms',
    limit: 1_500,
    measure: () => median(fivePercent(100_000), engine),
  },
  {
    name: 'engine, 100,000 rules, all changed, 2,000 related',
    unit: 'ms',
    limit: 5_000,
    measure: () => median(allChanged(100_000, 2_000), engine, 1),
  },
  {
    name: 'exposure, 10,000 rules, 5% changed',
    unit: 'ms',
    limit: 2_000,
    measure: () => median(fivePercent(10_000), exposure),
  },
  {
    name: 'whole plan, 10,000 rules, 5% changed',
    unit: 'ms',
    limit: 4_000,
    measure: () => median(fivePercent(10_000), (input) => void makePlan(input)),
  },
  {
    name: 'whole plan, 30,000 port rules on one address, 5% changed',
    unit: 'ms',
    limit: 4_000,
    measure: () => median(oneAddress(30_000), (input) => void makePlan(input), 3),
  },
  ...(
    [
      ['5 users with 1,990 re-drawn port rules each', redrawnPorts(5, 1_990)],
      ['1,000 users with 7 moved ranges each', movedRanges(1_000, 7)],
      ['8,000 nested networks, all flipped', nestedFlip(8_000)],
      ['300 users with 100 rules each and 100 global ones, all flipped', flippedForUsers(300, 100, 100)],
      ['1,000 gaps on everything beside 300 users', gapsForUsers(1_000, 300)],
    ] as const
  ).map(([name, world]) => ({
    name: `CPU of a plan beyond 1.5 × that of as many rules in sync: ${name}`,
    unit: 'ms' as const,
    limit: 1_000,
    measure: () =>
      cpuOf(() => makePlan(inputOf(world))) - 1.5 * cpuOf(() => makePlan(inputOf({ ...world, before: world.after }))),
  })),
  ...(
    [
      ['3,000 port rules over 3,000 nested networks', portsOverNestedNetworks(3_000)],
      ['1,000 port rules over 10,000 hosts', portsOverHosts(10_000)],
    ] as const
  ).map(([name, rules]) => ({
    name: `CPU of a lint: ${name}`,
    unit: 'ms' as const,
    limit: 1_000,
    measure: () => cpuOf(() => lint(inputOf({ before: [], after: rules }).desired)),
  })),
  {
    name: 'memory of the planner so far',
    unit: 'MB',
    limit: 1_024,
    measure: () => process.resourceUsage().maxRSS / 1024,
  },
];
