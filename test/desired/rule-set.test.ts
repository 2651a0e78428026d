import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { plan } from '../../src/index.ts';
import { applySuppressions } from '../../src/manifest/suppressions.ts';
import { findProfile } from '../../src/model/profile.ts';
import { collides, formatRuleKey } from '../../src/model/rule.ts';
import { wholeScope } from '../../src/model/state.ts';
import { runs } from '../property/runs.ts';
import { build, codes, document, usersNamed } from './helpers.ts';

const alice = 'a1520c4b-adc3-4574-932a-94461cf85c07';
const bob = 'b9692cfa-f429-4ea6-947f-ad22d40fd18b';
const people = [
  document('Users', 'people', `{alice: ${alice}, bob: ${bob}}`),
  document('Group', 'contractors', '{members: [alice, bob]}'),
  document('Network', 'staging', '{cidrs: [10.2.0.0/16, "2001:db8::/32"]}'),
].join('---\n');

const contractors = `apiVersion: firezone/v0
kind: RuleSet
metadata: {name: contractors}
spec:
  defaults: {action: accept, port_type: tcp}
  rules:
    - {name: web, destinations: [10.1.0.0/16, network: staging], port_range: [443, 8000-8010], users: [group: contractors, alice]}
    - {name: dns, destination: 10.1.0.53, port_type: udp, port_range: 53, user: alice}
`;

function names(desired: ReturnType<typeof build>): readonly string[] {
  return (desired.state?.rules ?? []).map((rule) => rule.name).sort();
}

describe('a RuleSet', () => {
  it('expands to a rule for each user, destination and port range, named by their content', () => {
    const desired = build({ 'people.yaml': people, 'set.yaml': contractors });
    expect(desired.problems.filter(({ severity }) => severity === 'error')).toEqual([]);
    expect(names(desired)).toEqual([
      'contractors/dns',
      'contractors/web/alice/10.1.0.0-16/tcp-443',
      'contractors/web/alice/10.1.0.0-16/tcp-8000-8010',
      'contractors/web/alice/10.2.0.0-16/tcp-443',
      'contractors/web/alice/10.2.0.0-16/tcp-8000-8010',
      'contractors/web/alice/2001:db8::-32/tcp-443',
      'contractors/web/alice/2001:db8::-32/tcp-8000-8010',
      'contractors/web/bob/10.1.0.0-16/tcp-443',
      'contractors/web/bob/10.1.0.0-16/tcp-8000-8010',
      'contractors/web/bob/10.2.0.0-16/tcp-443',
      'contractors/web/bob/10.2.0.0-16/tcp-8000-8010',
      'contractors/web/bob/2001:db8::-32/tcp-443',
      'contractors/web/bob/2001:db8::-32/tcp-8000-8010',
    ]);
    const dns = desired.state?.rules.find((rule) => rule.name === 'contractors/dns');
    expect(formatRuleKey(dns?.rule ?? fail())).toBe(`accept 10.1.0.53 udp 53-53 ${alice}`);
    expect(dns?.place).toEqual({ file: 'set.yaml', line: 8, column: 32 });
    expect(desired.state?.userNames.get(alice)).toBe('alice');
  });

  it('keeps its names and rules when its lists are reordered', () => {
    const texts = ['10.1.0.0/16', 'network: staging', '10.9.0.1'];
    const ports = ['443', '8000-8010', '22'];
    const users = ['alice', 'bob'];
    const set = (d: readonly string[], p: readonly string[], u: readonly string[]): string =>
      document(
        'RuleSet',
        's',
        `{rules: [{name: r, action: drop, port_type: tcp, destinations: [${d}], port_range: [${p}], users: [${u}]}]}`,
      );
    const expected = build({ 'p.yaml': people, 's.yaml': set(texts, ports, users) });
    expect(names(expected)).toHaveLength(24);
    fc.assert(
      fc.property(
        fc.shuffledSubarray(texts, { minLength: 3 }),
        fc.shuffledSubarray(ports, { minLength: 3 }),
        fc.shuffledSubarray(users, { minLength: 2 }),
        (d, p, u) => {
          const desired = build({ 'p.yaml': people, 's.yaml': set(d, p, u) });
          expect(desired.state?.rules.map(({ name, rule }) => [name, formatRuleKey(rule)])).toEqual(
            expected.state?.rules.map(({ name, rule }) => [name, formatRuleKey(rule)]),
          );
          expect(desired.state?.digest).toBe(expected.state?.digest);
        },
      ),
    );
  });

  it('collapses nested networks, overlapping ranges and users reached twice, with a note at each', () => {
    const desired = build({
      'p.yaml': people,
      's.yaml': document(
        'RuleSet',
        's',
        '{rules: [{name: r, action: drop, destinations: [10.2.3.0/24, network: staging], port_type: tcp, port_range: [80-90, 85-100, 100], users: [bob, group: contractors]}]}',
      ),
    });
    expect(codes(desired)).toEqual([
      '4:55 nested-destination',
      '4:123 overlapping-ports',
      '4:131 overlapping-ports',
      '4:150 user-twice',
    ]);
    expect(desired.problems.every(({ severity }) => severity === 'note')).toBe(true);
    expect(names(desired)).toContain('s/r/bob/10.2.0.0-16/tcp-80-100');
    expect(names(desired)).toHaveLength(4);
  });

  it('never expands to rules that the server cannot hold side by side', () => {
    const cidr = fc
      .tuple(fc.nat(3), fc.nat(3), fc.integer({ min: 14, max: 24 }))
      .map(([a, b, p]) => `10.${a}.${b}.0/${p}`);
    const range = fc.tuple(fc.integer({ min: 1, max: 30 }), fc.nat(10)).map(([low, width]) => `${low}-${low + width}`);
    fc.assert(
      fc.property(
        fc.array(cidr, { minLength: 1, maxLength: 8 }),
        fc.array(range, { minLength: 1, maxLength: 6 }),
        (d, p) => {
          const desired = build({
            's.yaml': document(
              'RuleSet',
              's',
              `{rules: [{name: r, action: drop, port_type: udp, destinations: [${d}], port_range: [${p}]}]}`,
            ),
          });
          const rules = desired.state?.rules ?? [];
          expect(rules.length).toBeGreaterThan(0);
          for (const [i, a] of rules.entries()) {
            for (const b of rules.slice(i + 1)) expect(collides(a.rule, b.rule)).toBe(false);
          }
        },
      ),
    );
  });

  it('takes what a rule does not say from the defaults, and null takes it away', () => {
    const desired = build({
      's.yaml': document(
        'RuleSet',
        's',
        `{defaults: {action: drop, destination: 10.0.0.1, port_type: tcp, port_range: 80, user_id: ${alice}}, rules: [{name: a}, {name: b, port_range: null}, {name: c, user_id: null}, {name: d, destinations: [10.0.0.2], action: accept}]}`,
      ),
    });
    expect(codes(desired)).toEqual([]);
    expect(
      Object.fromEntries((desired.state?.rules ?? []).map(({ name, rule }) => [name, formatRuleKey(rule)])),
    ).toEqual({
      's/a': `drop 10.0.0.1 tcp 80-80 ${alice}`,
      's/b': `drop 10.0.0.1 ${alice}`,
      's/c': 'drop 10.0.0.1 tcp 80-80 *',
      's/d/10.0.0.2': `accept 10.0.0.2 tcp 80-80 ${alice}`,
    });
  });

  it.each([
    ['{rules: [{name: a, destination: 10.0.0.1}]}', '4:16 missing-field'],
    ['{rules: [{name: a, action: drop}]}', '4:16 missing-field'],
    ['{rules: [{action: drop, destination: 10.0.0.1}]}', '4:16 missing-field'],
    ['{rules: [{name: a, action: drop, destination: {netwrk: x}}]}', '4:54 unknown-field'],
    ['{rules: [{name: a, action: drop, destination: {network: x}}]}', '4:53 unknown-network'],
    ['{rules: [{name: a, action: drop, destination: 10.0.0.1, users: [x]}]}', '4:71 unknown-user'],
    ['{rules: [{name: a, action: drop, destination: 10.0.0.1, users: []}]}', '4:53 expands-to-nothing'],
    ['{rules: [{name: a, action: drop, destination: 10.0.0.1, port_type: tcp, port_range: []}]}', '4:91 empty-ports'],
    ['{rules: [{name: a, action: drop, destination: 10.0.0.1, destinations: []}]}', '4:77 conflicting-fields'],
    [
      '{defaults: {destination: 1.2.3}, rules: [{name: a, action: drop}, {name: b, action: drop}]}',
      '4:32 address-short',
    ],
    [
      '{rules: [{name: a, action: drop, destination: 10.0.0.1}, {name: a, action: drop, destination: 10.0.0.2}]}',
      '4:71 duplicate-name',
    ],
    ['{rulez: []}', '4:8 unknown-field'],
  ])('%s: %s', (spec, expected) => {
    expect(codes(build({ 's.yaml': document('RuleSet', 's', spec) }))).toEqual([expected]);
  });

  it('suggests names that are near', () => {
    const desired = build({
      'p.yaml': people,
      's.yaml': document(
        'RuleSet',
        's',
        '{rules: [{name: a, action: drop, destination: {network: stagin}, users: [alcie, group: contractor]}]}',
      ),
    });
    expect(desired.problems.map(({ hint }) => hint)).toEqual([
      'Did you mean `staging`?',
      'Did you mean `alice`?',
      'Did you mean `contractors`?',
    ]);
  });

  it('cannot collide with another set, and both lines are named', () => {
    const set = (name: string, destination: string): string =>
      document(
        'RuleSet',
        name,
        `{rules: [{name: r, action: drop, port_type: tcp, port_range: 1-100, destination: ${destination}}]}`,
      );
    const desired = build({
      'a.yaml': set('a', '10.0.0.0/8'),
      'b.yaml': set('b', '10.0.0.0/24').replace('1-100', '50'),
    });
    expect(desired.problems).toMatchObject([
      { code: 'collision', place: { file: 'b.yaml', line: 4 }, related: [{ place: { file: 'a.yaml', line: 4 } }] },
    ]);
    const generic = build(
      { 'a.yaml': set('a', '10.0.0.0/8'), 'b.yaml': set('b', '10.0.0.0/24') },
      { profile: findProfile('generic') },
    );
    expect(generic.problems).toEqual([]);
  });

  it('names every rule of random sets that collides, and no other', () => {
    const rule = fc.record({
      a: fc.nat(3),
      p: fc.constantFrom(8, 15, 16, 24),
      low: fc.integer({ min: 1, max: 9 }),
      width: fc.nat(4),
      drop: fc.boolean(),
      ports: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(rule, { maxLength: 12 }), (rules) => {
        const items = rules.map(
          ({ a, p, low, width, drop, ports }, i) =>
            `{name: r${i}, action: ${drop ? 'drop' : 'accept'}, destination: 10.${a}.0.0/${p}${ports ? `, port_type: tcp, port_range: ${low}-${low + width}` : ''}}`,
        );
        const generic = build(
          { 's.yaml': document('RuleSet', 's', `{rules: [${items}]}`) },
          { profile: findProfile('generic') },
        );
        const desired = build({ 's.yaml': document('RuleSet', 's', `{rules: [${items}]}`) });
        const all = generic.state?.rules;
        if (all === undefined) return; // the same rule twice
        const colliding = all.some((a, i) => all.slice(i + 1).some((b) => collides(a.rule, b.rule)));
        expect(desired.state === null).toBe(colliding);
      }),
      { numRuns: runs(500) },
    );
  });
});

describe('users by e-mail', () => {
  const text = document('Rule', 'r', '{action: drop, destination: 10.0.0.1, user: Alice@Example.com}');

  it('are looked up among the users of the server', () => {
    const desired = build({ 'a.yaml': text }, { users: usersNamed({ 'alice@example.com': alice }) });
    expect(desired.problems).toEqual([]);
    expect(desired.emails).toEqual(['alice@example.com']);
    expect(desired.state?.rules[0]?.rule.userId).toBe(alice);
    expect(desired.state?.userNames.get(alice)).toBe('alice@example.com');
  });

  it('are a problem when the server does not have them', () => {
    const desired = build({ 'a.yaml': text }, { users: usersNamed({ 'alic@example.com': alice }) });
    expect(desired.problems).toMatchObject([{ code: 'unknown-user', hint: 'Did you mean `alic@example.com`?' }]);
  });

  it('that are groups are said to be groups', () => {
    const group = document('Group', 'ops', '{members: [ops]}');
    const desired = build({
      'a.yaml': `${group}---\n${document('Rule', 'r', '{action: drop, destination: 10.0.0.1, user: ops}')}`,
    });
    expect(codes(desired)).toEqual(['4:18 unknown-user', '9:51 unknown-user']);
    for (const { hint } of desired.problems) expect(hint).toContain('write `group: ops` in a rule');
  });

  it('stand for themselves offline, with a note, so that everything else is checked', () => {
    const desired = build({ 'a.yaml': text });
    expect(desired.problems).toMatchObject([{ code: 'unresolved-email', severity: 'note' }]);
    expect(desired.emails).toEqual(['alice@example.com']);
  });

  it('need a Users manifest where the server cannot be asked', () => {
    const generic = { profile: findProfile('generic') };
    expect(codes(build({ 'a.yaml': text }, generic))).toEqual(['4:51 email-not-supported']);
    const users = document('Users', 'u', `{Alice@example.com: ${alice}}`);
    expect(build({ 'a.yaml': text, 'u.yaml': users }, generic).state?.rules[0]?.rule.userId).toBe(alice);
  });
});

describe('the library’s plan', () => {
  const manifests = [
    { path: 'a.yaml', text: document('Rule', 'r', '{action: drop, destination: 10.0.0.1, user: Alice@Example.com}') },
  ];
  const users = { data: [{ id: alice, email: 'alice@example.com', role: 'unprivileged', disabled_at: null }] };

  it('is never made from an address that was not resolved', () => {
    expect(plan({ manifests, live: { rules: { data: [] } } })).toMatchObject({
      plan: null,
      problems: [{ code: 'unresolved-email', severity: 'error' }, { severity: 'note' }],
    });
    const planned = plan({ manifests, live: { rules: { data: [] }, users } }).plan;
    expect(planned?.steps).toMatchObject([{ type: 'create', rule: { userId: alice } }]);
  });
});

describe('scope', () => {
  it('makes a manifest outside it a problem', () => {
    const text = document('Rule', 'r', '{action: drop, destination: 10.0.0.1}');
    const configuration = document('Configuration', 'c', '{local_auth_enabled: true}');
    expect(codes(build({ 'a.yaml': text }, { scope: { ...wholeScope, users: new Set([alice]) } }))).toEqual([
      '4:35 outside-scope',
    ]);
    expect(codes(build({ 'a.yaml': text }, { scope: { ...wholeScope, users: new Set([null]) } }))).toEqual([]);
    expect(
      codes(build({ 'a.yaml': text, 'c.yaml': configuration }, { scope: { rules: true, configuration: false } })),
    ).toEqual(['3:18 outside-scope']);
  });
});

describe('switching a finding off', () => {
  const flow = (line: string): string => `apiVersion: firezone/v0
kind: RuleSet
metadata: {name: s}
spec:
  rules:
    - name: r
      action: drop
      destinations:
        - 10.0.0.0/8
${line}
`;

  it.each([
    ['on its line', '        - 10.0.0.1 # reconcile-ignore: nested-destination kept for the record', []],
    ['above it', '        # reconcile-ignore: nested-destination kept for the record\n        - 10.0.0.1', []],
    ['in the file', '        - 10.0.0.1\n# reconcile-ignore-file: nested-destination kept for the record', []],
    [
      'not with another code',
      '        - 10.0.0.1 # reconcile-ignore: user-twice kept for the record',
      ['10:11 nested-destination'],
    ],
    [
      'not on another line',
      '        - 10.0.0.1\n# reconcile-ignore: nested-destination kept for the record',
      ['10:11 nested-destination'],
    ],
    [
      'not without a reason',
      '        - 10.0.0.1 # reconcile-ignore: nested-destination',
      ['10:11 nested-destination', '10:20 ignore-without-reason'],
    ],
  ])('works %s', (_, line, expected) => {
    expect(codes(build({ 's.yaml': flow(line) }))).toEqual(expected);
  });

  it('is not possible for an error', () => {
    const suppression = { code: 'host-bits', reason: 'r', file: 'a', line: null };
    const problem = {
      code: 'host-bits',
      severity: 'error',
      summary: 's',
      place: { file: 'a', line: 1, column: 1 },
    } as const;
    expect(applySuppressions([problem], [suppression])).toEqual([problem]);
    expect(applySuppressions([{ ...problem, severity: 'warning' }], [suppression])).toEqual([]);
  });
});

function fail(): never {
  throw new Error('no such rule');
}
