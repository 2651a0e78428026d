import fc from 'fast-check';
import { Network } from '../../src/model/address.ts';
import { collides, formatRuleKey, type LiveRule, type Rule } from '../../src/model/rule.ts';
import type { Plan, Step } from '../../src/plan/plan.ts';
import { getRank, matches, type Packet } from '../../src/policy/verdict.ts';
import { packets, ruleArbitrary, users } from '../policy/universe.ts';

/** Two sets of rules that a server could hold, of which some rules are in both. */
export interface World {
  readonly before: readonly Rule[];
  readonly after: readonly Rule[];
}

function withoutCollisions(rules: readonly Rule[]): readonly Rule[] {
  const held: Rule[] = [];
  for (const rule of rules) if (!held.some((other) => collides(rule, other))) held.push(rule);
  return held;
}

/** Rules that meet often: global IPv4, mostly without ports. */
const crowded: fc.Arbitrary<Rule> = ruleArbitrary.map((rule) => ({
  ...rule,
  destination: new Network(4, 0xc0000200n + (rule.destination.first & 7n), Math.max(29, rule.destination.prefix % 33)),
  ports: rule.userId === null ? rule.ports : null,
  userId: null,
}));

/** Rules of users that are often equal: two networks, few forms. */
const alike: fc.Arbitrary<Rule> = fc.record({
  action: fc.constantFrom('accept', 'drop'),
  destination: fc.constantFrom(new Network(4, 0xc0000200n, 31), new Network(4, 0xc0000204n, 31)),
  ports: fc.constantFrom(null, null, { type: 'tcp' as const, low: 1, high: 3 }),
  userId: fc.constantFrom(...users),
});

/** Worlds of up to `size` rules on each side, without collisions inside a side; in some, users differ little or not at all. */
export function worldArbitrary(size: number): fc.Arbitrary<World> {
  const any = fc.constantFrom(ruleArbitrary, crowded).chain((rule) => worldOf(rule, size));
  return fc.oneof({ weight: 3, arbitrary: any }, { weight: 1, arbitrary: worldOf(crowded, size, alike) });
}

function worldOf(rule: fc.Arbitrary<Rule>, size: number, keptRule = rule): fc.Arbitrary<World> {
  const rules = fc.array(rule, { maxLength: size });
  return fc
    .record({ kept: fc.array(keptRule, { maxLength: Math.ceil(size / 3) }), removed: rules, added: rules })
    .map(({ kept, removed, added }) => ({
      before: withoutCollisions([...kept, ...removed]),
      after: withoutCollisions([...kept, ...added]),
    }));
}

/** Worlds of a server that holds any rules, copies of one included. */
export function colliding(size: number): fc.Arbitrary<World> {
  const rules = fc.array(ruleArbitrary, { maxLength: size });
  return fc
    .record({ kept: fc.array(ruleArbitrary, { maxLength: 3 }), removed: rules, added: rules })
    .map(({ kept, removed, added }) => ({
      before: [...kept, ...removed, ...removed.slice(0, 1)],
      after: [...new Map([...kept, ...added].map((rule) => [formatRuleKey(rule), rule])).values()],
    }));
}

/** Live rules; those whose bit is set in `modified` were modified in place. */
export function liveOf(rules: readonly Rule[], modified = 0): readonly LiveRule[] {
  return rules.map((rule, n) => ({
    id: `live-${n}`,
    rule,
    destinationText: rule.destination.text,
    insertedAt: '2024-01-01T00:00:00.000000Z',
    updatedAt: (modified >> n) & 1 ? '2024-01-02T00:00:00.000000Z' : '2024-01-01T00:00:00.000000Z',
  }));
}

/** The rules after one more step. */
export function afterStep(rules: readonly Rule[], step: Step): readonly Rule[] {
  if (step.type === 'configure') return rules;
  const removed = step.type === 'create' ? null : formatRuleKey(step.live.rule);
  const at = removed === null ? -1 : rules.findIndex((rule) => formatRuleKey(rule) === removed);
  if (removed !== null && at < 0) throw new Error(`${step.id} removes a rule that is not there`);
  const left = rules.filter((_, index) => index !== at);
  return step.type === 'delete' ? left : [...left, step.rule];
}

/** Every state on the way, the first and the last included. */
export function statesOf(before: readonly Rule[], steps: readonly Step[]): readonly (readonly Rule[])[] {
  const states = [before];
  for (const step of steps) states.push(afterStep(states.at(-1) ?? [], step));
  return states;
}

/** Whether the server would hold these rules. */
export function holds(rules: readonly Rule[]): boolean {
  return rules.every((rule, i) => rules.slice(i + 1).every((other) => !collides(rule, other)));
}

/** Nobody, and every user named in a rule. */
export function sourcesOf({ before, after }: World): readonly (string | null)[] {
  const users = new Set([...before, ...after].flatMap(({ userId }) => (userId === null ? [] : [userId])));
  return [null, ...[...users].sort()];
}

/** Every packet of the universe from the world's sources. */
export function packetsOf(world: World): readonly Packet[] {
  return [...packets(sourcesOf(world))];
}

export function accepted(rules: readonly Rule[], packet: Packet): boolean {
  let best = 8;
  for (const rule of rules) if (matches(rule, packet)) best = Math.min(best, getRank(rule));
  return best % 2 === 0;
}

/** A packet for each region: for each source, family and protocol, each set of rules that some packet matches. */
export function regionsOf(world: World): readonly Packet[] {
  const rules = [...world.before, ...world.after];
  const regions = new Map<string, Packet>();
  for (const packet of packetsOf(world)) {
    const matching = [...new Set(rules.filter((rule) => matches(rule, packet)).map(formatRuleKey))].sort().join('|');
    const key = `${packet.user} ${packet.address.family} ${packet.protocol} ${matching}`;
    if (!regions.has(key)) regions.set(key, packet);
  }
  return [...regions.values()];
}

/** What an order of steps costs, counted by trying every region in every state: opened, cut off, verdict changes. */
export function costByTrying(world: World, regions: readonly Packet[], steps: readonly Step[]): readonly number[] {
  const states = statesOf(world.before, steps);
  let [opened, cutOff, changes] = [0, 0, 0];
  for (const packet of regions) {
    const [first, last] = [accepted(world.before, packet), accepted(world.after, packet)];
    let previous = first;
    for (const state of states.slice(1)) {
      const verdict = accepted(state, packet);
      if (verdict !== previous) changes++;
      previous = verdict;
      if (verdict === first || verdict === last) continue;
      if (verdict) opened++;
      else cutOff++;
    }
  }
  return [opened, cutOff, changes];
}

/** Less than zero when `a` is cheaper. */
export function compareByTrying(a: readonly number[], b: readonly number[]): number {
  return a.map((value, index) => value - (b[index] ?? 0)).find((difference) => difference !== 0) ?? 0;
}

/** The plan's steps in another order that its dependencies allow, chosen by `pick`. */
export function linearExtension(plan: Plan, pick: (choices: number) => number): readonly Step[] {
  const left = [...plan.steps];
  const done = new Set<string>();
  const order: Step[] = [];
  while (left.length > 0) {
    const ready = left.filter(({ after }) => after.every((id) => done.has(id)));
    const step = ready[pick(ready.length)];
    if (step === undefined) throw new Error('the dependencies form a circle');
    left.splice(left.indexOf(step), 1);
    done.add(step.id);
    order.push(step);
  }
  return order;
}
