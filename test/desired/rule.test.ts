import { describe, expect, it } from 'vitest';
import { build, codes, document } from './helpers.ts';

const alice = 'a1520c4b-adc3-4574-932a-94461cf85c07';

function rule(spec: string): ReturnType<typeof build> {
  return build({ 'a.yaml': document('Rule', 'web', spec) });
}

describe('a Rule', () => {
  it('with bits beyond its mask means the whole network, and a warning says so', () => {
    const desired = rule('{action: drop, destination: 10.1.2.3/8}');
    expect(codes(desired)).toEqual(['4:35 host-bits']);
    expect(desired.problems[0]?.severity).toBe('warning');
    expect(desired.state?.rules[0]?.rule.destination.text).toBe('10.0.0.0/8');
  });

  it.each([['user: everyone'], ['user: nobody'], ['group: everyone'], ['group: any']])(
    '%s is told to leave the field out: no user may have that name',
    (field) => {
      const [problem] = rule(`{action: accept, destination: 10.0.0.1, ${field}}`).problems;
      expect(problem?.hint).toBe('For everyone, leave `user` and `group` out.');
    },
  );

  it.each([
    ['{action: accept, destination: 10.0.0.1/32}', 'accept 10.0.0.1'],
    ['{action: drop, destination: "2001:DB8:0:0::1/128"}', 'drop 2001:db8::1'],
    ['{action: accept, destination: 10.0.0.0/8, port_type: tcp, port_range: 443}', 'accept 10.0.0.0/8 tcp 443-443'],
    ['{action: accept, destination: 10.0.0.0/8, port_type: udp, port_range: "80-443"}', 'accept 10.0.0.0/8 udp 80-443'],
    [`{action: accept, destination: 10.0.0.0/8, user_id: ${alice.toUpperCase()}}`, `accept 10.0.0.0/8 ${alice}`],
    [
      '{action: accept, destination: 10.0.0.0/8, user_id: null, port_range: null, port_type: null}',
      'accept 10.0.0.0/8',
    ],
  ])('%s means %s', (spec, expected) => {
    const desired = rule(spec);
    expect(codes(desired)).toEqual([]);
    const [one] = desired.state?.rules ?? [];
    const { action, destination, ports, userId } = one?.rule ?? {};
    const portText = ports ? ` ${ports.type} ${ports.low}-${ports.high}` : '';
    expect(`${action} ${destination?.text}${portText}${userId ? ` ${userId}` : ''}`).toBe(expected);
    expect(one).toMatchObject({ name: 'web', place: { file: 'a.yaml', line: 4 } });
  });

  it.each([
    ['{action: accept, destination: 010.0.0.1}', 'address-octal'],
    ['{action: accept, destination: 10/8}', 'address-short'],
    ['{action: accept, destination: 10.1}', 'address-short'],
    ['{action: accept, destination: "fe80::1%eth0"}', 'address-zone'],
    ['{action: accept, destination: "2001:db8::/129"}', 'address-mask'],
    ['{action: accept, destination: 10.0.0.0/33}', 'address-mask'],
    ['{action: accept, destination: 10.0.0.0/255.0.0.0}', 'address-dotted-mask'],
    ['{action: accept, destination: "10.0.0.1, 10.0.0.2"}', 'address-list'],
    ['{action: accept, destination: 10.0.0.1-10.0.0.9}', 'address-range'],
    ['{action: accept, destination: example.com}', 'address-hostname'],
    ['{action: accept, destination: "[2001:db8::1]"}', 'address-brackets'],
    ['{action: accept, destination: ""}', 'address-empty'],
    ['{action: accept, destination: 10.0.0.1, port_type: tcp, port_range: "80,443"}', 'port-list'],
    ['{action: accept, destination: 10.0.0.1, port_type: tcp, port_range: 65535}', 'port-bounds'],
    ['{action: accept, destination: 10.0.0.1, port_type: tcp, port_range: 0}', 'port-bounds'],
    ['{action: accept, destination: 10.0.0.1, port_type: tcp, port_range: 90-80}', 'port-reversed'],
    ['{action: accept, destination: 10.0.0.1, port_type: tcp, port_range: 1e2}', 'port-not-a-range'],
    ['{action: accept, destination: 10.0.0.1, port_type: tcp, port_range: 0x50}', 'port-not-a-range'],
    ['{action: accept, destination: 10.0.0.1, port_range: 80}', 'port-type-missing'],
    ['{action: accept, destination: 10.0.0.1, port_type: tcp}', 'port-range-missing'],
    ['{action: accept, destination: 10.0.0.1, port_type: icmp, port_range: 80}', 'invalid-value'],
    ['{action: accept, destination: 10.0.0.1, user_id: alice}', 'wrong-type'],
    [`{action: accept, destination: 10.0.0.1, user_id: ${alice.replaceAll('-', '')}}`, 'wrong-type'],
    [`{action: accept, destination: 10.0.0.1, user_id: ${alice}, user: alice}`, 'conflicting-fields'],
    ['{action: accept, destination: 10.0.0.1, user: alice}', 'unknown-user'],
    ['{action: accept, destination: 10.0.0.1, group: ops}', 'unknown-group'],
    ['{action: Accept, destination: 10.0.0.1}', 'invalid-value'],
    ['{destination: 10.0.0.1}', 'missing-field'],
    ['{action: accept}', 'missing-field'],
    ['{action: accept, destinaton: 10.0.0.1}', 'unknown-field'],
    ['{action: accept, destination: [10.0.0.1]}', 'wrong-type'],
    ['{action: accept, destination: 10.0.0.1, user_id: }', 'empty-field'],
  ])('%s is refused: %s', (spec, code) => {
    const desired = rule(spec);
    expect(desired.state).toBeNull();
    expect(desired.problems.map((problem) => problem.code)).toEqual([code]);
    expect(desired.problems[0]).toMatchObject({ severity: 'error', place: { file: 'a.yaml' } });
    // Neither helps where a word stands for no single person, or a field is empty.
    expect(desired.problems[0]?.hint).not.toMatch(/^Write one; `null`/);
    expect(desired.problems[0]?.hint).toBeTruthy();
  });

  it('suggests the field that was meant, at its line and column, with the line', () => {
    const desired = build({
      'a.yaml':
        'apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: web}\nspec:\n  action: accept\n  destinaton: 10.0.0.1\n',
    });
    expect(desired.problems).toEqual([
      {
        code: 'unknown-field',
        severity: 'error',
        summary: 'There is no field `destinaton` here.',
        hint: 'Did you mean `destination`?',
        place: { file: 'a.yaml', line: 6, column: 3 },
        excerpt: '  destinaton: 10.0.0.1',
      },
    ]);
  });

  it('may use port 65535 with the generic profile only', () => {
    const text = document('Rule', 'web', '{action: accept, destination: 10.0.0.1, port_type: tcp, port_range: 65535}');
    const generic = build(
      { 'a.yaml': text },
      {
        profile: {
          name: 'generic',
          ruleUpdates: 'patch',
          refusesCollisions: false,
          ports: { low: 0, high: 65535 },
          listsUsers: false,
          filter: null,
        },
      },
    );
    expect(generic.state?.rules).toHaveLength(1);
  });
});

describe('manifests beside each other', () => {
  const accept = (name: string, destination: string): string =>
    document('Rule', name, `{action: accept, destination: ${destination}}`);

  it('cannot have one name twice, in any files', () => {
    const desired = build({ 'a.yaml': accept('web', '10.0.0.1'), 'b.yaml': accept('web', '10.0.0.2') });
    expect(desired.problems).toMatchObject([
      { code: 'duplicate-name', place: { file: 'b.yaml', line: 3 }, related: [{ place: { file: 'a.yaml', line: 3 } }] },
    ]);
  });

  it('cannot ask for one rule twice, whatever its host bits', () => {
    const desired = build({ 'a.yaml': accept('web', '10.0.0.1/8'), 'b.yaml': accept('other', '10.0.0.2/8') });
    expect(desired.problems.filter(({ code }) => code !== 'host-bits')).toMatchObject([
      { code: 'duplicate-rule', place: { file: 'b.yaml' }, related: [{ place: { file: 'a.yaml' } }] },
    ]);
  });

  it('cannot nest rules of one action, and both places are named', () => {
    const desired = build({ 'a.yaml': accept('wide', '10.0.0.0/8'), 'b.yaml': accept('narrow', '10.1.0.0/16') });
    expect(desired.problems).toMatchObject([
      {
        code: 'collision',
        place: { file: 'b.yaml', line: 4, column: 37 },
        related: [{ place: { file: 'a.yaml', line: 4, column: 37 } }],
      },
    ]);
  });

  it('give the same state in any order of the files', () => {
    const files = Object.entries({ 'a.yaml': accept('a', '10.0.0.1'), 'b.yaml': accept('b', '10.0.0.2') });
    const one = build(Object.fromEntries(files));
    const other = build(Object.fromEntries(files.reverse()));
    expect(other).toEqual(one);
    expect(one.state?.rules).toHaveLength(2);
  });

  it('must be there: an empty directory is an error, an empty rule set says that there are no rules', () => {
    expect(build({}).problems.map((problem) => problem.code)).toEqual(['no-manifests']);
    expect(build({ 'a.yaml': '# nothing\n---\n---\n' }).problems.map((problem) => problem.code)).toEqual([
      'no-manifests',
    ]);
    const said = build({ 'a.yaml': document('RuleSet', 'none', '{rules: []}') });
    expect(said.problems).toEqual([]);
    expect(said.state?.rules).toEqual([]);
  });

  it('may have several documents, CRLF lines and a byte order mark', () => {
    const text = `\uFEFF${accept('a', '10.0.0.1')}---\n${accept('b', '10.0.0.2')}`.replaceAll('\n', '\r\n');
    const desired = build({ 'a.yml': text });
    expect(codes(desired)).toEqual([]);
    expect(desired.state?.rules.map(({ place }) => place.line)).toEqual([4, 9]);
  });
});
