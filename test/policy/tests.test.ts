import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { makeState } from '../../src/desired/desired.ts';
import { contains } from '../../src/model/address.ts';
import { formatInstant } from '../../src/model/instant.ts';
import { omitUndefined } from '../../src/model/result.ts';
import { type DesiredRule, type Rule, type RuleNotes, selectRulesAt } from '../../src/model/rule.ts';
import type { PolicyCase, Protocol } from '../../src/model/state.ts';
import { decide } from '../../src/policy/decide-packet.ts';
import { indexRules } from '../../src/policy/rule-index.ts';
import { checkLasting, findLaterFailures, runPolicyTests } from '../../src/policy/tests.ts';
import { tellTests, warnOfLaterFailures } from '../../src/report/policy-tests.ts';
import { runs } from '../property/runs.ts';
import { accepts, networkNamed, packets, ruleArbitrary, rulesArbitrary, users } from './universe.ts';

const place = { file: 'tests.yaml', line: 1, column: 1 };
const bounds = { low: 1, high: 65_534 };
const everyProtocol: readonly Protocol[] = ['tcp', 'udp', 'other'];

function policyCase(fields: Partial<PolicyCase>): PolicyCase {
  const ports = { low: 0, high: 65_535 };
  const defaults = { name: 'case', place, user: null, protocols: everyProtocol, ports, expect: 'drop', always: false };
  return { destination: networkNamed('10.0.0.0/8'), ...defaults, ...fields } as PolicyCase;
}

const caseArbitrary = fc
  .record({
    like: ruleArbitrary,
    protocols: fc.constantFrom<readonly Protocol[]>(everyProtocol, ['tcp'], ['udp'], ['other']),
    user: fc.constantFrom(null, 'any', ...users),
    expect: fc.constantFrom('accept', 'drop'),
  })
  .map(({ like, ...fields }) => {
    const ports = like.ports ?? { low: 0, high: 65_535 };
    return policyCase({ ...fields, destination: like.destination, ports });
  });

describe('runPolicyTests', () => {
  it('fails exactly when some packet of the case gets the other verdict, and shows such a packet', () => {
    fc.assert(
      fc.property(rulesArbitrary, caseArbitrary, (rules, one) => {
        const named = users.filter((user) => rules.some(({ userId }) => userId === user));
        const sources = one.user === 'any' ? [null, ...named] : [one.user];
        const wrong = [...packets(sources)].filter(
          ({ address, protocol, port, ...packet }) =>
            one.protocols.includes(protocol) &&
            one.destination.family === address.family &&
            one.destination.first <= address.first &&
            address.first <= one.destination.last &&
            (protocol === 'other' || (one.ports.low <= port && port <= one.ports.high)) &&
            accepts(rules, { address, protocol, port, ...packet }) !== (one.expect === 'accept'),
        );
        const [result] = runPolicyTests(
          [one],
          rules.map((rule) => ({ rule })),
          bounds,
        );
        const failure = result?.failure ?? null;
        expect(failure === null).toBe(wrong.length === 0);
        if (failure === null) return;
        expect(wrong).toContainEqual(failure.packet);
        expect(failure.verdict).not.toBe(one.expect);
        expect(failure.edgePortsOnly).toBe(wrong.every(({ protocol, port }) => protocol !== 'other' && port === 0));
      }),
      { numRuns: runs(5000) },
    );
  });

  it('says when only ports 0 and 65535 fail, which no port rule can cover', () => {
    const rule = { action: 'drop', destination: networkNamed('10.0.0.0/8'), userId: null } as const;
    const rules = [{ rule: { ...rule, ports: { type: 'tcp', low: 1, high: 65_534 } as const } }];
    const tcp = policyCase({ protocols: ['tcp'] });
    const [whole, inner] = runPolicyTests([tcp, { ...tcp, ports: { low: 1, high: 65_534 } }], rules, bounds);
    expect(whole?.failure).toMatchObject({ edgePortsOnly: true, verdict: 'accept', rule: null, packet: { port: 0 } });
    expect(inner?.failure).toBeNull();
  });

  it('blames the deciding rule', () => {
    const accept = {
      rule: { action: 'accept', destination: networkNamed('10.0.0.0/8'), ports: null, userId: null },
    } as const;
    const drop = {
      rule: { action: 'drop', destination: networkNamed('10.1.2.3'), ports: null, userId: null },
    } as const;
    const [result] = runPolicyTests([policyCase({ destination: networkNamed('10.1.2.3') })], [drop, accept], bounds);
    expect(result?.failure).toMatchObject({ verdict: 'accept', rule: accept });
  });
});

describe('too many policy tests', () => {
  const destination = networkNamed('10.0.0.0/8');
  const cases = Array.from({ length: 1000 }, () => policyCase({ user: 'any', expect: 'accept' }));

  it('run for one of the users with the same rules, so a group of thousands takes no longer than one person', () => {
    const members = Array.from({ length: 2000 }, (_, n) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`);
    const access = { action: 'accept', destination: networkNamed('10.2.0.0/16'), ports: null } as const;
    const rules = members.map((userId) => ({ rule: { ...access, userId } }));
    expect(runPolicyTests(cases, rules, bounds, { budget: { looks: 100_000 } })).toHaveLength(cases.length);
    const own = { action: 'drop', destination: networkNamed('10.1.0.0/16'), ports: null } as const;
    const wrong = { rule: { ...own, userId: members[1_234] ?? '' } };
    const [result] = runPolicyTests(cases, [...rules, wrong], bounds);
    expect(result?.failure).toMatchObject({ verdict: 'drop', packet: { user: members[1_234] } });
  });

  it('end with fewer results than cases, so that no sidecar stands still', () => {
    const rule = { action: 'accept', destination, ports: null, userId: null } as const;
    const one: DesiredRule = { name: 'r', rule, place, expires: 5 };
    const state = makeState([one], 0, { configuration: null, userNames: new Map(), tests: cases });
    const results = runPolicyTests(cases, [one], bounds, { budget: { looks: 1000 } });
    const { length } = results;
    expect([length > 0, length < cases.length]).toEqual([true, true]);
    const { passed, failed, headline, problems } = tellTests(results, state);
    expect([passed, failed, problems.map(({ code }) => code)]).toEqual([length, 1000 - length, ['too-many-cases']]);
    expect(headline).toBe(`${length} cases passed, ${1000 - length} failed or were not run`);
    const many = { ...state, rules: new Array<DesiredRule>(2_000_001).fill(one) };
    expect(runPolicyTests(cases, many.rules, bounds)).toEqual([]);
    expect(findLaterFailures(many, bounds)).toEqual({ failures: [], until: 5 });
  });

  it('count the rules of each time that `at` names, once for all cases of that time', () => {
    const ruleOf = (n: number) => ({ action: 'drop', destination, ports: { type: 'tcp', low: n, high: n } }) as const;
    const rules = Array.from({ length: 1000 }, (_, n): DesiredRule => {
      return { name: `r${n}`, rule: { ...ruleOf(n + 1), userId: null }, place, expires: 5000 };
    });
    const caseAt = (time: number) => policyCase({ expect: 'accept', protocols: ['udp'], at: { time, rules } });
    const two = Array.from({ length: 100 }, (_, n) => caseAt(n % 2 === 0 ? 1 : 6000));
    expect(runPolicyTests(two, [], bounds, { budget: { looks: 30_000 } }).map((one) => one.case)).toEqual(two);
    const each = Array.from({ length: 100 }, (_, n) => caseAt(n));
    expect(runPolicyTests(each, [], bounds, { budget: { looks: 30_000 } })).toHaveLength(2);
  });
});

describe('checkLasting', () => {
  const opened = {
    direction: 'opened',
    traffic: [{ user: null, destinations: ['10.1.0.0/16'], protocol: 'tcp', ports: [{ low: 80, high: 90 }] }],
  } as const;
  const drop = policyCase({ always: true });

  it('finds the packet that a state in between lets through', () => {
    const [failure] = checkLasting([{ ...drop, ports: { low: 85, high: 100 } }], [opened], new Set(users));
    expect(failure).toMatchObject({ verdict: 'accept', packet: { port: 85 } });
    expect(failure?.packet?.address.text).toBe('10.1.0.0');
  });

  it.each([
    ['a case that expects the traffic to pass', { ...drop, expect: 'accept' as const }],
    ['other ports', { ...drop, ports: { low: 91, high: 100 } }],
    ['other addresses', { ...drop, destination: networkNamed('10.2.0.0/16') }],
    ['other protocols', { ...drop, protocols: ['udp', 'other'] as const }],
    ['another source', { ...drop, user: users[0] }],
  ])('leaves alone %s', (_, one) => {
    expect(checkLasting([one], [opened], new Set(users))).toMatchObject([{ packet: null }]);
  });

  it('ends with fewer results than cases where moments and cases are too many', () => {
    const cases = new Array<PolicyCase>(1000).fill(drop);
    const { length } = checkLasting(cases, new Array<typeof opened>(100).fill(opened), new Set(users), {
      looks: 10_000,
    });
    expect([length > 0, length < cases.length]).toEqual([true, true]);
  });
});

describe('findLaterFailures', () => {
  const named = (rule: Rule, n: number, times: RuleNotes): DesiredRule => ({ name: `r${n}`, rule, place, ...times });
  const stateOf = (rules: readonly DesiredRule[], tests: readonly PolicyCase[]) =>
    makeState(rules, 0, { configuration: null, userNames: new Map(), tests });

  it('names exactly the cases that hold now and fail at a later time, each with the first', () => {
    const time = fc.option(fc.integer({ min: -2, max: 6 }), { nil: undefined });
    const timed = fc.tuple(ruleArbitrary, fc.record({ notBefore: time, expires: time }));
    fc.assert(
      fc.property(fc.array(timed, { maxLength: 6 }), fc.array(caseArbitrary, { maxLength: 4 }), (drawn, cases) => {
        const isSound = ({ notBefore = -9, expires = 9 }: RuleNotes): boolean => notBefore < expires;
        const rules = drawn.map(([rule, times], n) => named(rule, n, omitUndefined(times))).filter(isSound);
        const tests = cases.map((one, n) => ({ ...one, name: `c${n}`, place: { ...place, line: n } }));
        const failsAt = (one: PolicyCase, at: number): boolean =>
          runPolicyTests([one], selectRulesAt(rules, at), bounds)[0]?.failure !== null;
        const expected = tests.flatMap((one) => {
          const first = failsAt(one, 0) ? undefined : [1, 2, 3, 4, 5, 6].find((at) => failsAt(one, at));
          return first === undefined ? [] : [[one.name, first]];
        });
        const { failures, until } = findLaterFailures(stateOf(rules, tests), bounds);
        expect(until).toBeNull();
        expect(failures.map((one) => [one.case.name, one.turn.at]).sort()).toEqual(expected.sort());
        for (const { failure, turn, ...one } of failures) {
          if (failure === null) throw new Error('a failure');
          expect(contains(one.case.destination, failure.packet.address)).toBe(true);
          const decision = decide(indexRules(selectRulesAt(rules, turn.at)), failure.packet);
          expect([decision.verdict, decision.rule]).toEqual([failure.verdict, failure.rule]);
          const former = decide(indexRules(selectRulesAt(rules, turn.at - 1)), failure.packet);
          expect(turn.rule).toBe(turn.what === 'begins' ? decision.rule : former.rule);
          // As the hint says.
          if (turn.what === 'begins') continue;
          const extended = rules.map((rule) => (rule === turn.rule ? { ...rule, expires: 9 } : rule));
          const { verdict } = decide(indexRules(selectRulesAt(extended, turn.at)), failure.packet);
          expect(verdict).toBe(one.case.expect);
        }
      }),
      { numRuns: runs(1000) },
    );
  });

  it('names the rule that decided, not others for the same address that end at the same time', () => {
    const port = (low: number) => ({ type: 'tcp', low, high: low }) as const;
    const destination = networkNamed('10.0.0.5');
    const rules = [
      named({ action: 'accept', destination, ports: port(22), userId: users[0] }, 1, { expires: 5 }),
      named({ action: 'accept', destination, ports: port(80), userId: null }, 2, { expires: 5 }),
      named({ action: 'drop', destination, ports: port(443), userId: null }, 3, { expires: 5 }),
    ];
    const one = policyCase({ destination, protocols: ['tcp'], ports: { low: 443, high: 443 } });
    const { failures } = findLaterFailures(stateOf(rules, [one]), bounds);
    expect(failures.map(({ turn }) => turn.rule.name)).toEqual(['r3']);
  });

  it('ends after so many looks, and a note says from when on nobody looked', () => {
    const rules = Array.from({ length: 2500 }, (_, n) => {
      const destination = networkNamed(`10.${n % 200}.${Math.floor(n / 200)}.0/24`);
      return named({ action: 'accept', destination, ports: null, userId: null }, n, { expires: 1000 + n });
    });
    const state = stateOf(rules, [policyCase({ expect: 'accept' })]);
    const { failures, until } = findLaterFailures(state, bounds);
    expect([failures, until]).toEqual([[], expect.any(Number)]);
    const [problem] = warnOfLaterFailures(state, bounds);
    expect([problem?.code, problem?.severity]).toEqual(['too-many-times', 'note']);
    expect(problem?.summary).toContain(`from ${formatInstant(until ?? 0)} on`);
  });
});
