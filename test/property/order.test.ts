import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseNetwork } from '../../src/model/address.ts';
import { findProfile, type Profile } from '../../src/model/profile.ts';
import { formatRuleKey } from '../../src/model/rule.ts';
import { makePlan } from '../../src/plan/make-plan.ts';
import type { Plan, Step } from '../../src/plan/plan.ts';
import type { Traffic } from '../../src/policy/traffic.ts';
import type { Packet } from '../../src/policy/verdict.ts';
import { planInput } from '../plan/support.ts';
import {
  accepted,
  colliding,
  compareByTrying,
  costByTrying,
  holds,
  linearExtension,
  liveOf,
  packetsOf,
  regionsOf,
  statesOf,
  type World,
  worldArbitrary,
} from './order-world.ts';
import { runs } from './runs.ts';

const profiles: readonly Profile[] = [
  findProfile('firezone-0.7'),
  findProfile('firezone-0.7', 'patch'),
  findProfile('generic'),
];
const profileArbitrary = fc.constantFrom(...profiles);

function planOf(world: World, profile: Profile, modified = 0): Plan {
  const place = { file: 'rules.yaml', line: 1, column: 1 };
  const desired = world.after.map((rule, n) => ({ name: `rule-${n}`, rule, place }));
  return makePlan(
    planInput(
      { desired, live: liveOf(world.before, modified), options: { replaceModified: modified % 3 === 1 } },
      { profile },
    ),
  );
}

function covers(traffic: readonly Traffic[], packet: Packet): boolean {
  return traffic.some(
    ({ user, destinations, protocol, ports }) =>
      user === packet.user &&
      protocol === packet.protocol &&
      (ports === null || ports.some(({ low, high }) => low <= packet.port && packet.port <= high)) &&
      destinations.some((text) => {
        const parsed = parseNetwork(text);
        if (!parsed.ok) throw new Error(text);
        const { family, first, last } = parsed.value.network;
        return family === packet.address.family && first <= packet.address.first && packet.address.first <= last;
      }),
  );
}

/** Checks one order of the plan's steps: every state is held, and every wrong verdict is listed. */
function check(world: World, plan: Plan, steps: readonly Step[], profile: Profile): void {
  const states = statesOf(world.before, steps);
  const listed = { opened: listedTraffic(plan, 'opened'), cut_off: listedTraffic(plan, 'cut_off') };
  if (profile.refusesCollisions) for (const state of states) expect(holds(state)).toBe(true);
  for (const packet of packetsOf(world)) {
    const [first, last] = [accepted(world.before, packet), accepted(world.after, packet)];
    for (const state of states) {
      const verdict = accepted(state, packet);
      if (verdict === first || verdict === last) continue;
      if (!covers(verdict ? listed.opened : listed.cut_off, packet)) {
        expect.fail(`${JSON.stringify(packet.address.text)} ${packet.protocol} ${packet.port} is exposed, unlisted`);
      }
    }
  }
}

/** What the plan lists, without what passes while the server rebuilds its filter. */
function listedTraffic(plan: Plan, direction: 'opened' | 'cut_off'): readonly Traffic[] {
  const listed = plan.exposure.filter((item) => item.direction === direction && item.fromStep !== item.toStep);
  return listed.flatMap(({ traffic }) => traffic);
}

describe('an order of steps', { timeout: 300_000 }, () => {
  it('is accepted at every step, ends at the desired rules, and exposes exactly what it lists', () => {
    fc.assert(
      fc.property(worldArbitrary(9), profileArbitrary, (world, profile) => {
        const plan = planOf(world, profile);
        check(world, plan, plan.steps, profile);
        const states = statesOf(world.before, plan.steps);
        expect(planOf({ before: states.at(-1) ?? [], after: world.after }, profile).steps).toEqual([]);
        for (const exposure of plan.exposure) {
          const from = plan.steps.findIndex(({ id }) => id === exposure.fromStep);
          const to = plan.steps.findIndex(({ id }) => id === exposure.toStep);
          for (const packet of packetsOf(world)) {
            if (!covers(exposure.traffic, packet)) continue;
            const wrong = exposure.direction === 'opened';
            const verdicts = states.slice(from, to + 2).map((state) => accepted(state, packet));
            expect(verdicts).toEqual([!wrong, ...new Array<boolean>(to - from).fill(wrong), !wrong]);
          }
        }
      }),
      { numRuns: runs(1_200) },
    );
  });

  it('exposes no more in any order that the dependencies allow', () => {
    fc.assert(
      fc.property(
        worldArbitrary(8),
        profileArbitrary,
        fc.array(fc.nat(), { minLength: 40, maxLength: 40 }),
        (world, profile, choices) => {
          const plan = planOf(world, profile);
          let next = 0;
          const pick = (count: number): number => (choices[next++ % choices.length] ?? 0) % count;
          for (let order = 0; order < 3; order++) check(world, plan, linearExtension(plan, pick), profile);
        },
      ),
      { numRuns: runs(1_200) },
    );
  });

  it('keeps its promises where rules collide and come in copies', () => {
    fc.assert(
      fc.property(colliding(7), fc.array(fc.nat(), { minLength: 40, maxLength: 40 }), (world, choices) => {
        const generic = findProfile('generic');
        const plan = planOf(world, generic);
        check(world, plan, plan.steps, generic);
        let next = 0;
        check(
          world,
          plan,
          linearExtension(plan, (count) => (choices[next++ % choices.length] ?? 0) % count),
          generic,
        );
        const last = statesOf(world.before, plan.steps).at(-1) ?? [];
        expect(last.map(formatRuleKey).sort()).toEqual(world.after.map(formatRuleKey).sort());
      }),
      { numRuns: runs(600) },
    );
  });

  it('puts deletes of rules modified in place last, one at a time, and says what passes meanwhile', () => {
    fc.assert(
      fc.property(
        worldArbitrary(8),
        fc.nat({ max: 2 ** 11 }),
        fc.array(fc.nat(), { minLength: 60, maxLength: 60 }),
        (world, modified, choices) => {
          const profile = findProfile('firezone-0.7');
          const plan = planOf(world, profile, modified);
          let next = 0;
          const steps = linearExtension(plan, (count) => (choices[next++ % choices.length] ?? 0) % count);
          check(world, plan, steps, profile);
          const rebuilds = steps.flatMap((step) => (step.type === 'delete' && step.mayRebuild ? [step] : []));
          expect(rebuilds.map(({ id }) => id)).toEqual(
            plan.steps.flatMap((step) => (step.type === 'delete' && step.mayRebuild ? [step.id] : [])),
          );
          const gaps = new Set(rebuilds.map(({ gap }) => gap));
          const first = steps.findIndex((step) => step.type === 'delete' && step.mayRebuild);
          const late =
            first < 0 ? [] : steps.slice(first).filter((step) => !(step.type === 'delete' && step.mayRebuild));
          for (const step of late) expect(step.gap !== null && gaps.has(step.gap)).toBe(true);
          const all = packetsOf(world);
          const dropped = new Set(
            all.filter((packet) => !accepted(world.before, packet) && !accepted(world.after, packet)),
          );
          const [start] = rebuilds;
          if (start === undefined) return;
          const listed = plan.exposure.find(({ fromStep, toStep }) => fromStep === start.id && toStep === start.id);
          for (const packet of all) expect(covers(listed?.traffic ?? [], packet)).toBe(dropped.has(packet));
        },
      ),
      { numRuns: runs(300) },
    );
  });

  it('costs no more than any other valid order, tried one by one', () => {
    fc.assert(
      fc.property(worldArbitrary(4), profileArbitrary, (world, profile) => {
        const plan = planOf(world, profile);
        fc.pre(plan.steps.length <= 6);
        const regions = regionsOf(world);
        const cost = costByTrying(world, regions, plan.steps);
        for (const order of permutations(plan.steps)) {
          if (profile.refusesCollisions && !statesOf(world.before, order).every(holds)) continue;
          const other = costByTrying(world, regions, order);
          if (compareByTrying(other, cost) < 0) {
            expect.fail(`${order.map(({ id }) => id).join(' ')} costs ${other.join()}, the plan ${cost.join()}`);
          }
        }
      }),
      { numRuns: runs(600) },
    );
  });
});

function* permutations(steps: readonly Step[]): Generator<readonly Step[]> {
  if (steps.length <= 1) yield steps;
  for (const [index, step] of steps.entries()) {
    if (steps.length <= 1) return;
    for (const rest of permutations(steps.filter((_, other) => other !== index))) yield [step, ...rest];
  }
}
