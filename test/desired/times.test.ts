import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { makeState } from '../../src/desired/desired.ts';
import { printState } from '../../src/desired/print.ts';
import { findProfile } from '../../src/model/profile.ts';
import { formatRuleKey } from '../../src/model/rule.ts';
import type { DesiredState } from '../../src/model/state.ts';
import { listAllRules, wholeScope } from '../../src/model/state.ts';
import { digestPlan } from '../../src/plan/digest.ts';
import { defaultPlanOptions, type PlanOptions } from '../../src/plan/input.ts';
import { makePlan } from '../../src/plan/make-plan.ts';
import type { Plan } from '../../src/plan/plan.ts';
import { runs } from '../property/runs.ts';
import { build } from './helpers.ts';

const day = (text: string): number => Date.parse(`${text}T00:00:00Z`);

function set(rules: readonly string[], spec = ''): string {
  return `apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: lab}\nspec:\n${spec}  rules:\n${rules.map((rule) => `    - {${rule}}\n`).join('')}`;
}

function stateAt(text: string, now: number): DesiredState {
  const { state, problems } = build({ 'lab.yaml': text }, { now });
  if (state === null) throw new Error(JSON.stringify(problems));
  return state;
}

const names = (text: string, now: number): readonly string[] =>
  stateAt(text, now)
    .rules.map(({ name }) => name.slice(4))
    .sort();

const week = 'name: week, action: accept, destination: 10.1.0.0/16, notBefore: 2026-06-01, expires: 2026-06-07';
const always = 'name: always, action: drop, destination: 10.0.0.0/8';

describe('a rule with times', () => {
  it('is desired from its first moment until its last, and not at that one any more', () => {
    const text = set([week, always]);
    expect(names(text, day('2026-06-01') - 1)).toEqual(['always']);
    expect(names(text, day('2026-06-01'))).toEqual(['always', 'week']);
    expect(names(text, day('2026-06-08') - 1)).toEqual(['always', 'week']);
    expect(names(text, day('2026-06-08'))).toEqual(['always']);
  });

  it('has no longer time than its set, and the days of the set’s time zone', () => {
    const text = set([week, always], '  timezone: Europe/Berlin\n  notBefore: 2026-06-03\n  expires: 2026-06-30\n');
    const berlin = (date: string): number => Date.parse(`${date}T00:00:00+02:00`);
    expect(names(text, berlin('2026-06-03') - 1)).toEqual([]);
    expect(names(text, berlin('2026-06-03'))).toEqual(['always', 'week']);
    expect(names(text, berlin('2026-06-08'))).toEqual(['always']);
    expect(names(text, berlin('2026-07-01'))).toEqual([]);
  });

  it('is kept once for all the times that policy tests name', () => {
    const cases = Array.from({ length: 28 }, (_, n) => `{destination: 10.0.0.1, expect: drop, at: 2026-05-${n + 1}}`);
    const tests = `apiVersion: firezone/v0\nkind: PolicyTest\nmetadata: {name: t}\nspec: {cases: [${cases.join(', ')}]}\n`;
    const state = stateAt(`${set([week, always])}---\n${tests}`.replace(/-(\d)}/g, '-0$1}'), 0);
    expect(new Set(state.tests.map(({ at }) => at?.rules))).toHaveProperty('size', 1);
  });

  it('may stand in a kind: Rule', () => {
    const text =
      'apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: lab/one}\nspec: {action: drop, destination: 10.0.0.1, expires: "2026-06-07T12:00:00+02:00"}\n';
    expect(names(text, Date.parse('2026-06-07T09:59:59Z'))).toEqual(['one']);
    expect(names(text, Date.parse('2026-06-07T10:00:00Z'))).toEqual([]);
  });

  it('gives another digest once a time has passed, so that a saved plan is stale', () => {
    const text = set([week, always]);
    const digests = ['2026-05-01', '2026-06-02', '2026-06-03', '2026-07-01'].map(
      (date) => stateAt(text, day(date)).digest,
    );
    expect(digests[1]).toBe(digests[2]);
    expect(digests[0]).toBe(digests[3]);
    expect(digests[0]).not.toBe(digests[1]);
  });

  it('stays through `build`, whether it is in force or not', () => {
    const text = set([week, 'name: old, action: accept, destination: 10.9.0.0/16, expires: 2026-01-01', always]);
    const printed = [...printState(stateAt(text, day('2026-05-01')), null)].join('');
    for (const date of ['2025-12-01', '2026-05-01', '2026-06-02', '2026-07-01']) {
      expect(stateAt(printed, day(date)).digest).toBe(stateAt(text, day(date)).digest);
    }
  });

  it('collides only with rules whose time overlaps, and that is found before it comes', () => {
    const other = (from: string) => `name: other, action: accept, destination: 10.1.2.0/24, notBefore: ${from}`;
    expect(build({ 'lab.yaml': set([week, other('2026-06-08')]) }, { now: day('2026-05-01') }).state).not.toBeNull();
    const { state, problems } = build({ 'lab.yaml': set([week, other('2026-06-07')]) }, { now: day('2026-05-01') });
    expect(state).toBeNull();
    expect(problems.find(({ code }) => code === 'collision')?.summary).toMatch(/^From 2026-06-07T00:00:00Z: /);
    // What has ended keeps nothing else out.
    expect(build({ 'lab.yaml': set([week, other('2026-06-07')]) }, { now: day('2026-06-09') }).state).not.toBeNull();
  });

  it.each([
    ['expires: 2026-13-01', 'not-a-time'],
    ['expires: 2026-12-01T10:00:00', 'not-a-time'],
    ['expires: soon', 'not-a-time'],
    ['notBefore: 2026-06-02, expires: 2026-06-01', 'expires-first'],
    ['expires: 20261201', 'invalid-type'],
  ])('with %s is a problem at its place', (times, code) => {
    const { state, problems } = build({
      'lab.yaml': set([`name: x, action: accept, destination: 10.0.0.1, ${times}`]),
    });
    expect(state).toBeNull();
    expect(problems[0]?.place).toMatchObject({ file: 'lab.yaml', line: 6 });
    if (code !== 'invalid-type') expect(problems.map((problem) => problem.code)).toEqual([code]);
  });

  it('with a time zone that is none is a problem', () => {
    const { problems } = build({ 'lab.yaml': set([week], '  timezone: Europe/Nowhere\n') });
    expect(problems.map(({ code, place }) => [code, place?.line])).toEqual([['not-a-time', 5]]);
  });

  it('that dropped something until then is a warning, and one that has ended a note', () => {
    const text = set(['name: x, action: drop, destination: 10.0.0.1, expires: 2026-06-01']);
    const found = (date: string) =>
      build({ 'lab.yaml': text }, { now: day(date) }).problems.map(({ code, severity }) => [code, severity]);
    expect(found('2026-05-01')).toEqual([['expiry-opens', 'warning']]);
    expect(found('2026-06-03')).toEqual([['expired', 'note']]);
    // Whether it is live still, a look at the manifests does not know.
    const [ended] = build({ 'lab.yaml': text }, { now: day('2026-06-03') }).problems;
    expect(ended?.summary).toBe('`lab/x` expired at 2026-06-02T00:00:00Z, and is not asked for any more.');
  });

  it('that dropped something until then is none where others drop the same from then on, but for the last of them', () => {
    const drop = 'action: drop, destination: 10.0.0.0/8';
    const chain = [`name: a, ${drop}, expires: 2026-06-01`, `name: b, ${drop}, notBefore: 2026-06-02`];
    const found = (rules: readonly string[]) =>
      build({ 'lab.yaml': set(rules) }, { now: day('2026-05-01') }).problems.map(({ summary }) => summary.slice(0, 9));
    expect(found(chain)).toEqual([]);
    expect(found([chain[0] ?? '', `${chain[1]}, expires: 2026-07-01`])).toEqual(['`lab/b` d']);
  });

  it('holds at every time exactly the rules of that time, whatever the times are', () => {
    const moment = fc.integer({ min: 1, max: 28 });
    const times = fc.record({ from: fc.option(moment), until: fc.option(moment) });
    fc.assert(
      fc.property(fc.array(times, { minLength: 1, maxLength: 6 }), fc.integer({ min: 0, max: 30 }), (all, today) => {
        const usable = all.filter(({ from, until }) => from === null || until === null || from <= until);
        const date = (n: number): string => `2026-06-${String(n).padStart(2, '0')}`;
        const rules = usable.map(({ from, until }, n) =>
          [
            `name: r${n}, action: accept, destination: 10.${n}.0.0/16`,
            from === null ? '' : `notBefore: ${date(from)}`,
            until === null ? '' : `expires: ${date(until)}`,
          ]
            .filter((part) => part !== '')
            .join(', '),
        );
        fc.pre(rules.length > 0);
        const expected = usable.flatMap(({ from, until }, n) =>
          (from ?? 0) <= today && today <= (until ?? 99) ? [`r${n}`] : [],
        );
        const now = day('2026-05-31') + today * 86_400_000;
        expect(names(set(rules), now)).toEqual(expected);
        // The state of a time can be picked from that of another time, as while clocks differ.
        const [then, wanted] = [stateAt(set(rules), day('2026-06-15')), stateAt(set(rules), now)];
        const picked = makeState(listAllRules(then), now, then);
        expect([picked.rules, picked.at, picked.digest]).toEqual([wanted.rules, wanted.at, wanted.digest]);
        const byName = (list: DesiredState['rules'] = []) => list.map(({ name }) => name).sort();
        expect([picked.expired, picked.upcoming].map(byName)).toEqual([wanted.expired, wanted.upcoming].map(byName));
      }),
      { numRuns: runs(200) },
    );
  });
});

describe('a plan when a rule has ended', () => {
  const text = set([week, always]);
  const during = stateAt(text, day('2026-06-02'));
  const after = stateAt(text, day('2026-06-09'));

  function planAfter(options: Partial<PlanOptions> = {}, base: DesiredState | null = null): Plan {
    return planBetween(during, after, base, options);
  }

  function planBetween(
    before: DesiredState,
    desired: DesiredState,
    base: DesiredState | null,
    options: Partial<PlanOptions> = {},
  ): Plan {
    const live = before.rules.map(({ rule }, n) => ({
      id: `l${n}`,
      rule,
      destinationText: rule.destination.text,
      insertedAt: '',
      updatedAt: '',
    }));
    return makePlan({
      desired,
      live: { rules: live, configuration: null },
      base,
      baseApplied: base !== null,
      appliedRules: new Map(base?.rules.map((rule) => [formatRuleKey(rule.rule), rule])),
      profile: findProfile('firezone-0.7'),
      scope: wholeScope,
      options: { ...defaultPlanOptions, ...options },
    });
  }

  it.each(['all', 'none'] as const)('deletes it, whose origin is that it expired: --prune %s', (prune) => {
    const plan = planAfter({ prune });
    const [change] = plan.changes.filter(({ action }) => action === 'delete');
    expect(change).toMatchObject({ name: 'lab/week', origin: 'expired', expires: day('2026-06-08') });
    expect(plan.steps.map(({ type }) => type)).toEqual(['delete']);
  });

  it('counts it for --max-deletes, unless the state last applied held it with this time', () => {
    const refusals = (base: DesiredState | null): readonly string[] =>
      planAfter({ maxDeletes: { count: 0 } }, base).refusals.map(({ code }) => code);
    expect(refusals(null)).toEqual(['too-many-deletes']);
    expect(refusals(during)).toEqual([]);
    const rules = during.rules.map((rule) =>
      rule.expires === undefined ? rule : { ...rule, expires: rule.expires + 1 },
    );
    expect(refusals({ ...during, rules })).toEqual(['too-many-deletes']);
  });

  it('threat 26: counts drop rules that end for --max-deletes and --max-changes, though they were applied with this time', () => {
    const rules = Array.from({ length: 12 }, (_, n) => `name: r${n}, action: drop, destination: 10.${n}.0.0/16`);
    const manifests = set([
      ...rules.map((one) => `${one}, expires: 2026-06-07`),
      'name: on, action: drop, destination: 10.99.0.0/16',
    ]);
    const codes = (action: 'drop' | 'accept'): readonly string[] => {
      const turned = manifests.replaceAll('action: drop', `action: ${action}`);
      const base = stateAt(turned, day('2026-06-02'));
      return planBetween(base, stateAt(turned, day('2026-06-09')), base).refusals.map(({ code }) => code);
    };
    expect(codes('drop')).toEqual(['too-many-deletes', 'too-many-changes']);
    expect(codes('accept')).toEqual([]);
  });

  it('goes by the last of its times that have passed, in whichever order manifests give them', () => {
    const last = 'name: last, action: accept, destination: 10.1.0.0/16, expires: 2026-06-07';
    const first = 'name: first, action: accept, destination: 10.1.0.0/16, expires: 2026-03-01';
    for (const rules of [
      [last, first, always],
      [first, last, always],
    ]) {
      const base = stateAt(set(rules), day('2026-06-02'));
      const plan = planBetween(base, stateAt(set(rules), day('2026-06-09')), base, { maxDeletes: { count: 0 } });
      expect(plan.changes.filter(({ action }) => action === 'delete')).toMatchObject([{ name: 'lab/last' }]);
      expect(plan.refusals).toEqual([]);
    }
  });

  it('is another plan than before it ended, and than with another time to come: what was reviewed says when access begins and ends', () => {
    const plan = planAfter();
    const live = { rules: [], configuration: null };
    const digestOf = (desired: DesiredState): string => digestPlan(plan, { desired, live, key: null }).plan;
    expect(digestOf(after)).not.toBe(digestOf(during));
    expect(digestOf(stateAt(text.replace('06-07', '12-31'), day('2026-06-02')))).not.toBe(digestOf(during));
    expect(digestOf(stateAt(text, day('2026-06-03')))).toBe(digestOf(during));
    const [before, later] = [text, text.replace('06-01', '06-02')].map((one) => stateAt(one, day('2026-05-01')));
    expect(before && digestOf(before)).not.toBe(later && digestOf(later));
    expect(after.rules.map(({ rule }) => formatRuleKey(rule))).toEqual(['drop 10.0.0.0/8 *']);
  });

  it('says when the next rule begins or ends', () => {
    const at = (date: string): number | undefined =>
      makePlan({
        desired: stateAt(text, day(date)),
        live: { rules: [], configuration: null },
        base: null,
        profile: findProfile('firezone-0.7'),
        scope: wholeScope,
        options: defaultPlanOptions,
      }).nextBoundary;
    expect([at('2026-05-01'), at('2026-06-01'), at('2026-06-08')]).toEqual([
      day('2026-06-01'),
      day('2026-06-08'),
      undefined,
    ]);
  });
});
