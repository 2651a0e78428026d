import { describe, expect, it } from 'vitest';
import { parseNetwork } from '../../../src/model/address.ts';
import type { Action } from '../../../src/model/rule.ts';
import { type PolicyCase, wholeScope } from '../../../src/model/state.ts';
import type { PlanInput } from '../../../src/plan/input.ts';
import { makePlan } from '../../../src/plan/make-plan.ts';
import { desiredRules, liveRules, planInput, user } from '../support.ts';

function policyCase(destination: string, fields: Partial<PolicyCase> = {}): PolicyCase {
  const parsed = parseNetwork(destination);
  if (!parsed.ok) throw new Error(parsed.error);
  const place = { file: 'tests.yaml', line: 9, column: 3 };
  const ports = { low: 0, high: 65_535 };
  const defaults = {
    name: 'closed',
    place,
    user: null,
    protocols: ['tcp', 'udp', 'other'],
    ports,
    expect: 'drop',
    always: false,
  };
  return { ...defaults, destination: parsed.value.network, ...fields } as PolicyCase;
}

function refusals(live: readonly string[], desired: readonly string[], tests: readonly PolicyCase[]) {
  const input = planInput({ desired: desiredRules(...desired), live: liveRules(...live) });
  return makePlan({ ...input, desired: { ...input.desired, tests } }).refusals;
}

describe('policy tests', () => {
  it('refuse a plan after which one fails, with a counterexample and the deciding rule', () => {
    const [refusal, ...others] = refusals(
      ['drop 10.0.0.0/8'],
      ['drop 10.0.0.0/8', 'accept 10.1.0.0/16 tcp/443'],
      [policyCase('10.0.0.0/8')],
    );
    expect(others).toEqual([]);
    expect(refusal?.code).toBe('policy-test-failed');
    expect(refusal?.summary).toContain("tcp 10.1.0.0 port 443 from nobody's device gets accept: `r2` decides");
    expect(refusal?.related?.map(({ place }) => place.file)).toEqual(['tests.yaml', 'rules.yaml']);
  });

  it('refuse a plan without steps too: the rules that stand do not pass', () => {
    expect(refusals(['drop 10.0.0.0/9'], ['drop 10.0.0.0/9'], [policyCase('10.0.0.0/8')])).toMatchObject([
      { code: 'policy-test-failed' },
    ]);
  });

  it('of a later time count the live rules that stay, outside the scope or without pruning', () => {
    const input = planInput({ desired: desiredRules('drop 10.0.0.0/29'), live: liveRules('accept 10.0.0.5 @bob') });
    const at = { time: 1, rules: input.desired.rules };
    const desired = { ...input.desired, tests: [policyCase('10.0.0.5', { user: user('bob'), at })] };
    const refused = (more: Partial<PlanInput>) =>
      makePlan({ ...input, desired, ...more }).refusals.map(({ code }) => code);
    expect(refused({})).toEqual([]);
    expect(refused({ scope: { ...wholeScope, users: new Set([null]) } })).toEqual(['policy-test-failed']);
    expect(refused({ options: { ...input.options, prune: 'none' } })).toEqual(['policy-test-failed']);
    // A pass over times alone.
    expect(refused({ options: { ...input.options, prune: new Set() } })).toEqual([]);
  });

  it('that are too many to be run refuse the plan', () => {
    const [rule] = desiredRules('accept 10.0.0.0/8');
    const at = { time: 1, rules: new Array(2_000_001).fill(rule) };
    const cases = ['accept', 'drop'].map((expected) => policyCase('10.0.0.0/8', { expect: expected as Action, at }));
    expect(refusals([], [], cases)).toMatchObject([{ code: 'too-many-cases' }]);
  });

  it('that must always hold refuse a plan that breaks them on the way', () => {
    const widening = (always: boolean) =>
      refusals(['drop 10.1.2.3'], ['drop 10.0.0.0/8'], [policyCase('10.1.2.3', { always })]);
    expect(widening(false)).toEqual([]);
    expect(widening(true)).toMatchObject([{ code: 'policy-test-failed-on-the-way' }]);
    expect(widening(true)[0]?.summary).toContain('tcp 10.1.2.3 port 0');
  });

  it('that fail by the thousand are listed up to a hundred of each kind, and the others are counted', () => {
    const cases = new Array<PolicyCase>(1500).fill(policyCase('10.1.2.3', { always: true }));
    const found = refusals(['drop 10.1.2.3'], ['drop 10.0.0.0/8'], cases);
    expect([found.length, found.at(-1)?.summary]).toEqual([101, 'Policy tests: 1,400 more cases fail likewise.']);
    const after = refusals([], [], cases);
    expect([after.length, after.at(-1)?.code]).toEqual([101, 'policy-test-failed']);
  });

  it('that must always hold for a user whom no rule names refuse what breaks them for everybody', () => {
    const user = 'c1520c4b-adc3-4574-932a-94461cf85c07';
    const [refusal] = refusals(
      ['drop 10.1.2.3', 'accept 192.0.2.1 @bob'],
      ['drop 10.0.0.0/8', 'accept 192.0.2.1 @bob'],
      [policyCase('10.1.2.3', { always: true, user })],
    );
    expect(refusal).toMatchObject({ code: 'policy-test-failed-on-the-way' });
    expect(refusal?.summary).toContain(user);
  });

  it('that must always hold do not stand in the way of a plan that mends what fails now', () => {
    const tests = [policyCase('10.1.2.3', { always: true })];
    expect(refusals(['drop 192.0.2.1'], ['drop 192.0.2.1', 'drop 10.0.0.0/8', 'drop 198.51.100.0/24'], tests)).toEqual(
      [],
    );
  });
});
