import fc from 'fast-check';
import { expect, it } from 'vitest';
import { makeState } from '../../src/desired/desired.ts';
import { formatInstant } from '../../src/model/instant.ts';
import { findProfile } from '../../src/model/profile.ts';
import { type DesiredRule, type Rule, type RuleNotes, selectRulesAt } from '../../src/model/rule.ts';
import { wholeScope } from '../../src/model/state.ts';
import { diffDesired } from '../../src/plan/diff-desired.ts';
import { defaultPlanOptions } from '../../src/plan/input.ts';
import { makePlan } from '../../src/plan/make-plan.ts';
import { computeEffect } from '../../src/policy/effect.ts';
import { renderPlan } from '../../src/report/text.ts';
import { worldArbitrary } from '../property/order-world.ts';
import { runs } from '../property/runs.ts';
import { reportOf } from '../report/support.ts';
import { desiredRules, liveRules, planInput, rule, user } from './support.ts';

const options = { profile: findProfile('firezone-0.7'), scope: wholeScope, options: defaultPlanOptions };

it('the difference of two states has the changes and the effect of the plan for a server that holds the first', () => {
  fc.assert(
    fc.property(worldArbitrary(8), ({ before, after }) => {
      const [place] = desiredRules('drop 10.0.0.0/8');
      const named = (rules: typeof before) =>
        rules.map((rule, n) => ({ name: `r${n}`, rule, place: place?.place ?? { file: '', line: 1, column: 1 } }));
      const live = before.map((rule, n) => ({
        id: `l${n}`,
        rule,
        destinationText: rule.destination.text,
        insertedAt: '',
        updatedAt: '',
      }));
      const input = planInput({ desired: named(after), live, base: named(before) });
      const plan = makePlan(input);
      const diff = diffDesired({
        before: { ...input.desired, rules: named(before) },
        after: input.desired,
        ...options,
      });
      expect(diff.effect).toEqual(plan.effect);
      expect(diff.changes.map(({ action, name }) => [action, name])).toEqual(
        plan.changes.map(({ action, name }) => [action, name]),
      );
    }),
    { numRuns: runs(300) },
  );
});

/** Rules with or without times, as they are when the clock says `at`. */
function stateOf(rules: readonly DesiredRule[], at = 3) {
  const { rules: _, ...rest } = planInput({ desired: [] }).desired;
  return { ...makeState(rules, at, rest), at };
}

it('a rule that goes is told by its name, though another one with its content is to begin later', () => {
  const timed = (name: string, times: RuleNotes) =>
    desiredRules(`${name}=drop 10.0.0.1/32`).map((one) => ({ ...one, ...times }));
  const later = timed('b', { notBefore: 8 });
  const { changes } = diffDesired({
    before: stateOf([...timed('a', { expires: 6 }), ...later]),
    after: stateOf(later),
    ...options,
  });
  expect(changes.map(({ action, name }) => [action, name])).toEqual([
    ['delete', 'a'],
    ['keep', 'b'],
  ]);
});

it('among rules of equal content each is compared with the one of its name, and told by its own name', () => {
  const timed = (name: string, times: RuleNotes) =>
    desiredRules(`${name}=accept 10.0.0.1/32`).map((one) => ({ ...one, ...times }));
  const before = [...timed('a', { expires: 5 }), ...timed('b', { notBefore: 5 })];
  const tell = (after: readonly DesiredRule[]) =>
    diffDesired({ before: stateOf(before), after: stateOf(after), ...options }).changes.map((one) => [
      one.action,
      one.name,
      one.id,
      ...Object.entries(one.fields).flatMap(([name, { before: was, after: is }]) =>
        name === 'expires' || name === 'not_before' ? [name, was, is] : [],
      ),
    ]);
  const [five, eight] = [5, 8].map(formatInstant);
  const chain = [...timed('b', { expires: 8 }), ...timed('c', { notBefore: 8 })];
  expect(tell(chain)).toEqual([
    ['update', 'b', 'b', 'not_before', five, null, 'expires', null, eight],
    ['update', 'c', 'a', 'not_before', null, eight, 'expires', five, null],
  ]);
  expect(tell(timed('b', { notBefore: 8 }))).toEqual([
    ['delete', 'a', 'a'],
    ['update', 'b', 'b', 'not_before', five, eight],
  ]);
  expect(tell([])).toEqual([
    ['delete', 'a', 'a'],
    ['delete', 'b', 'b'],
  ]);
});

it('without a server nothing drifts, is there twice, or was not applied: all that differs is of this revision', () => {
  const timed = (name: string, times: RuleNotes) =>
    desiredRules(`${name}=accept 10.0.0.1/32`).map((one) => ({ ...one, ...times }));
  const one = stateOf(timed('a', { expires: 9 }));
  const two = stateOf([...timed('b', { expires: 5 }), ...timed('c', { notBefore: 6, expires: 9 })]);
  const over = stateOf(timed('a', { expires: 2 }));
  const tell = (before: typeof one, after: typeof one) =>
    diffDesired({ before, after, ...options }).changes.map((change) => [change.reason, change.name, change.origin]);
  expect(tell(one, two)).toEqual([
    ['desired-only', 'c', 'this-revision'],
    ['differs', 'b', 'this-revision'],
  ]);
  expect(tell(two, one)).toEqual([
    ['not-desired', 'c', 'this-revision'],
    ['differs', 'a', 'this-revision'],
  ]);
  expect(tell(one, over)).toEqual([['not-desired', 'a', 'this-revision']]);
});

it('what differs at a later time is what the rules of that time differ in, and equal policies differ in nothing', () => {
  const anyTimes = fc
    .tuple(fc.constantFrom(undefined, 1, 4, 5), fc.constantFrom(undefined, 2, 6, 7))
    .filter(([notBefore = 0, expires = 9]) => notBefore < expires);
  const giveTimes = (rules: readonly Rule[], times: readonly (readonly [number | undefined, number | undefined])[]) =>
    rules.map((one, n): DesiredRule => {
      const [notBefore, expires] = times[n] ?? [];
      const place = { file: 'rules.yaml', line: n + 1, column: 1 };
      return { name: `r${n}`, rule: one, place, ...(notBefore && { notBefore }), ...(expires && { expires }) };
    });
  const anyManyTimes = fc.array(anyTimes, { minLength: 20, maxLength: 20 });
  fc.assert(
    fc.property(worldArbitrary(8), anyManyTimes, anyManyTimes, (world, timesBefore, timesAfter) => {
      const [before, after] = [giveTimes(world.before, timesBefore), giveTimes(world.after, timesAfter)];
      const plan = diffDesired({ before: stateOf(before), after: stateOf(after), ...options });
      const isNew = before.every(({ expires = 4 }) => expires <= 3);
      const rulesAt = (rules: readonly DesiredRule[], time: number) =>
        selectRulesAt(rules, time).map((one) => one.rule);
      // Users whose rules have not ended are told apart at all times.
      const users = [...before, ...after].flatMap(({ rule, expires = 4 }) => (expires > 3 ? (rule.userId ?? []) : []));
      for (const time of [3, 4, 5, 6, 7]) {
        const told = (plan.later ?? []).findLast(({ from }) => from <= time)?.effect ?? plan.effect;
        // Where there was no rule before, what is put in force now is what differs later.
        const former =
          isNew && time > 3 && plan.later?.some(({ from }) => from <= time) ? rulesAt(after, 3) : rulesAt(before, time);
        expect(told).toEqual(computeEffect(former, rulesAt(after, time), users));
      }
      // So does a plan of the one after the other, whatever is live.
      const input = planInput({}, { desired: stateOf(after), base: stateOf(before) });
      expect(makePlan(input).later).toEqual(plan.later);
      expect(makePlan({ ...input, baseApplied: true }).later).toBeUndefined();
      const same = diffDesired({ before: stateOf(before), after: stateOf(before), ...options });
      expect([same.later, same.changes.filter(({ action }) => action !== 'keep')]).toEqual([undefined, []]);
    }),
    { numRuns: runs(300) },
  );
});

it('of thousands of rules that end at times of their own only those near one that differs count', () => {
  const texts = Array.from({ length: 4000 }, (_, n) => `accept 10.${n >> 8}.${n & 255}.0/24`);
  const many = desiredRules(...texts).map((one, n) => ({ ...one, name: `r${n}`, expires: 10 + n }));
  const base = desiredRules('drop 0.0.0.0/0').map((one) => ({ ...one, name: 'base' }));
  const added = desiredRules('accept 192.168.0.0/16').map((one) => ({
    ...one,
    name: 'added',
    notBefore: 5,
    expires: 9,
  }));
  const before = [...base, ...many];
  const { later, refusals } = diffDesired({
    before: stateOf(before),
    after: stateOf([...before, ...added]),
    ...options,
  });
  expect(refusals).toEqual([]);
  expect(later?.map(({ from, effect }) => [from, effect.opens.length > 0])).toEqual([
    [5, true],
    [9, false],
  ]);
});

it('rules that end on a year of days, beside users with rules elsewhere, are compared with one for all networks', () => {
  const own = desiredRules(
    ...Array.from({ length: 300 }, (_, n) => `own${n}=accept 10.200.${n >> 8}.${n & 255} @u${n}`),
  );
  const texts = Array.from({ length: 2000 }, (_, n) => `accept 10.${n >> 8}.${n & 255}.1 tcp/${n + 1}`);
  const ending = desiredRules(...texts).map((one, n) => ({ ...one, name: `r${n}`, expires: 10 + (n % 365) }));
  const added = desiredRules('drop 0.0.0.0/0 udp/53').map((one) => ({ ...one, name: 'added' }));
  const before = [...desiredRules('drop 10.0.0.0/8').map((one) => ({ ...one, name: 'base' })), ...own, ...ending];
  const { refusals, later } = diffDesired({
    before: stateOf(before),
    after: stateOf([...before, ...added]),
    ...options,
  });
  expect([refusals, later]).toEqual([[], undefined]);
});

it('rules that differ at more times than can be compared are refused after so many looks, in a plan too', () => {
  const texts = Array.from({ length: 700 }, (_, n) => `drop 10.${n >> 8}.${n & 255}.0/24`);
  const many = desiredRules(...texts).map((one, n) => ({ ...one, name: `r${n}`, expires: 10 + n }));
  const compared = diffDesired({ before: stateOf([]), after: stateOf(many), ...options });
  const planned = makePlan(planInput({}, { desired: stateOf(many), base: stateOf([]) }));
  for (const { refusals, later } of [compared, planned])
    expect([refusals.map(({ code }) => code), later]).toEqual([['too-many-times'], undefined]);
  // Nothing differs now, and nobody looked at what differs later.
  const prolonged = diffDesired({
    before: stateOf(many),
    after: stateOf(many.map((one) => ({ ...one, expires: one.expires + 1000 }))),
    ...options,
  });
  const comparison = { comparison: { from: 'a', to: 'b' } };
  for (const [plan, headline] of [
    [prolonged, 'no traffic changes.'],
    [compared, 'opens nothing; closes for everyone'],
  ] as const)
    expect(renderPlan(reportOf(plan, comparison), { color: false })).toMatch(
      new RegExp(`^(?:Traffic +)?Now \\(later times were not compared\\): ${headline}$`, 'm'),
    );
});

it('what differs for many users at many times counts by how much traffic is kept, so that a report of it can be written', () => {
  const own = desiredRules(...Array.from({ length: 100 }, (_, n) => `accept 10.1.0.${n} @u${n}`));
  const drops = desiredRules(...Array.from({ length: 200 }, (_, n) => `drop 10.1.0.0/24 tcp/${2 * n + 1}`));
  const after = [...own, ...drops.map((one, n) => ({ ...one, name: `d${n}`, notBefore: 10 + n }))];
  const { refusals, later } = diffDesired({ before: stateOf([]), after: stateOf(after), ...options });
  expect([refusals.map(({ code }) => code), later]).toEqual([['too-many-times'], undefined]);
});

it('a rule that is prolonged, and ends between the reads of the two sides, opens traffic from its end on', () => {
  const [base, access] = desiredRules('drop 0.0.0.0/0', 'accept 192.168.0.0/16').map((one, n) => ({
    ...one,
    name: `r${n}`,
  }));
  if (base === undefined || access === undefined) throw new Error('two rules are made');
  const [before, after] = [4, 9].map((expires) => [base, { ...access, expires }]);
  const { later } = diffDesired({ before: stateOf(before ?? []), after: stateOf(after ?? [], 5), ...options });
  expect(later?.map(({ from, effect }) => [from, effect.opens.length > 0])).toEqual([
    [4, true],
    [9, false],
  ]);
});

it('a user whose own rule only begins later gets now what everybody gets, and keeps being told apart when it ends', () => {
  const bob = '00000000-0000-4000-8000-000000000002';
  const [base, net, own] = desiredRules('drop 0.0.0.0/0', 'accept 10.0.0.0/8', 'drop 10.1.0.0/16').map((one, n) => ({
    ...one,
    name: `r${n}`,
  }));
  if (base === undefined || net === undefined || own === undefined) throw new Error('three rules are made');
  const timed = { ...own, rule: { ...own.rule, userId: bob }, notBefore: 5, expires: 9 };
  const { effect, later } = diffDesired({ before: stateOf([base]), after: stateOf([base, net, timed]), ...options });
  const destinations = (opens: typeof effect.opens) =>
    opens.flatMap((one) => (one.user === bob && one.protocol === 'tcp' ? one.destinations : []));
  expect(destinations(effect.opens)).toEqual(['10.0.0.0/8']);
  expect(later?.map((one) => [one.from, destinations(one.effect.opens).includes('10.0.0.0/8')])).toEqual([
    [5, false],
    [9, true],
  ]);
});

it('a user whom only rules that begin later name is protected from then on, as nobody else is', () => {
  const base = desiredRules('all=drop 10.0.0.0/8');
  const { destination } = rule('drop 10.9.0.0/24');
  const protect = [{ destination, protocol: null, ports: null, user: user('alice') }];
  const plan = (...texts: readonly string[]) => {
    const later = desiredRules(...texts).map((one) => ({ ...one, notBefore: 5 }));
    const parts = { live: liveRules('drop 10.0.0.0/8'), options: { protect } };
    return makePlan(planInput(parts, { desired: stateOf([...base, ...later]), base: stateOf(base) }));
  };
  const codesOf = ({ refusals }: ReturnType<typeof plan>) => refusals.map(({ code }) => code);
  expect(codesOf(plan('own=accept 10.9.0.0/24 @alice'))).toEqual(['protected-traffic']);
  const others = plan('open=accept 10.9.0.0/24', 'own=drop 10.9.0.0/24 @alice');
  expect(codesOf(others)).toEqual([]);
  expect(renderPlan(reportOf(others), { color: false })).toMatch(
    /From 1970-01-01T00:00:00.005Z: opens for everyone but user 00000000;/,
  );
});
