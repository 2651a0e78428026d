import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { rule, startWorld, type World } from './harness.ts';

let world: World;
const day = 86_400_000;
const inDays = (days: number): string => new Date(Date.now() + days * day).toISOString();

beforeEach(async () => {
  world = await startWorld();
});

afterEach(() => world.close());

const guest = (end: string): string => rule('guest', `action: accept, destination: 10.1.2.0/24, expires: "${end}"`);
const closed = rule('closed', 'action: drop, destination: 10.0.0.0/8');

describe('times on the command line', () => {
  it('a plan says beside the rule in how many days it ends, and that nothing runs by itself', async () => {
    world.write('m/a.yaml', guest(inDays(9.2)) + closed);
    const { code, out } = await world.cli(['--plan', 'm']);
    expect(code).toBe(0);
    expect(out).toMatch(/guest.*\(expires in 9 days \(\d{4}-/);
    expect(out).toMatch(/Next, at [-0-9T:]+Z: guest ends\. Nothing/);
    expect(out).toContain('Nothing runs at that time unless a sidecar or a scheduled apply does.');
    const applied = await world.cli(['apply', '--yes', 'm']);
    expect(applied.out).toMatch(/Next, at [-0-9T:]+Z: guest ends\. Nothing/);
  });

  it('validate --within names what ends soon; without it, it does not', async () => {
    world.write('m/a.yaml', guest(inDays(9)) + closed);
    expect((await world.cli(['validate', 'm'])).out).not.toContain('expires-soon');
    expect((await world.cli(['validate', '--within', '8d', 'm'])).out).not.toContain('expires-soon');
    const run = await world.cli(['validate', '--within', '14d', 'm']);
    expect([run.code, run.out]).toEqual([
      0,
      expect.stringMatching(/m\/a\.yaml:3.*note.*`guest` ends at .* \[expires-soon\]|expires-soon/s),
    ]);
    expect((await world.cli(['validate', '--within', 'soon', 'm'])).code).toBe(1);
  });

  it('no limit counts a rule that ends after another one with the same content, as the last apply said', async () => {
    const access = 'action: accept, destination: 10.1.2.0/24';
    const second = rule('second', `${access}, notBefore: "${inDays(1)}", expires: "${inDays(2)}"`);
    world.write('m/a.yaml', guest(inDays(1)) + second + closed);
    const apply = ['apply', '--yes', '--state-dir', 'state', '--max-deletes', '0', 'm'];
    expect((await world.cli(apply)).code).toBe(0);
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 3 * day });
    try {
      const { code, out } = await world.cli(apply);
      expect([code, world.simulator.rules().length], out).toEqual([0, 1]);
    } finally {
      vi.useRealTimers();
    }
  });

  it('maxExpiry of the settings bounds how far ahead access may be given, at the rule’s place', async () => {
    world.write('m/a.yaml', guest(inDays(91)) + closed.replace('}\n---', ', expires: 2099-01-01}\n---'));
    world.write('s.yaml', 'maxExpiry: 90d\n');
    const run = await world.cli(['validate', '--config', 's.yaml', '--output', 'json', 'm']);
    expect(run.code).toBe(4);
    expect(run.json().problems.filter(({ severity }) => severity === 'error')).toMatchObject([
      { code: 'expires-too-late', file: 'a.yaml', line: expect.any(Number) },
    ]);
    world.write('m/a.yaml', guest(inDays(89)) + closed);
    expect((await world.cli(['validate', '--config', 's.yaml', 'm'])).code).toBe(0);
    world.write('s.yaml', 'maxExpiry: long\n');
    const bad = await world.cli(['validate', '--config', 's.yaml', 'm']);
    expect([bad.code, bad.err]).toEqual([1, expect.stringContaining('s.yaml:1:')]);
  });

  it('says where `expires` belongs, if the settings ask for it', async () => {
    world.write('m/a.yaml', rule('web', 'action: accept, destination: 10.2.0.0/16'));
    world.write('s.yaml', 'require: [expires]\n');
    const run = await world.cli(['validate', '--config', 's.yaml', 'm']);
    expect([run.code, run.out]).toEqual([
      4,
      expect.stringContaining('beside the `action` of the rule, or under `spec`'),
    ]);
  });

  it('a plan without a base says how many rules have ended, and claims nothing of its other changes', async () => {
    world.write('m/a.yaml', guest(inDays(9)) + closed);
    await world.cli(['m']);
    world.write('m/a.yaml', guest('2020-01-01') + rule('web', 'action: accept, destination: 10.2.0.0/16'));
    const plan = await world.cli(['plan', 'm', '--max-deletes', '9', '--max-changes', '9', '--state-dir', 'state']);
    expect(plan.out).toMatch(/^Expired: 1\.$/m);
    expect(plan.out).not.toContain('This revision');
    expect(plan.out).toContain('1 live rule is in no manifest and will be deleted');
  });

  it('a plan says what a revision opens later, compared with the one before, and --fail-on opens refuses it now', async () => {
    const later = rule('later', 'action: accept, destination: 10.128.0.0/9, notBefore: 2099-01-01');
    world.write('m/a.yaml', guest(inDays(9)) + closed);
    world.write('n/a.yaml', guest(inDays(9)) + closed + later);
    await world.cli(['m']);
    const plan = await world.cli(['plan', 'n', '--base', 'm', '--fail-on', 'opens']);
    expect([plan.code, plan.out]).toEqual([3, expect.stringContaining('[fail-on-opens]')]);
    expect(plan.out).toMatch(/^Now: no traffic changes/m);
    expect(plan.out).toMatch(
      /From 2099-01-01T00:00:00Z: opens for everyone; closes nothing\n {2}opens {4}10\.128\.0\.0\/9 for/,
    );
    expect((await world.cli(['plan', 'n', '--base', 'n', '--fail-on', 'opens'])).code).toBe(0);
    // Access that is to end, and now never does.
    world.write('k/a.yaml', guest(inDays(9)).replace(/, expires: "[^"]*"/, '') + closed);
    const kept = await world.cli(['plan', 'k', '--base', 'm', '--fail-on', 'opens']);
    expect([kept.code, kept.out]).toEqual([3, expect.stringMatching(/From \S+: opens for everyone; closes nothing/)]);
  });

  it('a base without the manifests hides nothing that opens later: a plan and a diff compare with what they put in force now', async () => {
    const later = rule('later', 'action: accept, destination: 10.7.0.0/16, notBefore: 2099-01-01');
    world.write('m/a.yaml', closed);
    await world.cli(['m']);
    world.write('n/a.yaml', closed + later);
    world.write('base/README', 'no manifests yet');
    const plan = await world.cli(['plan', 'n', '--base', 'base', '--fail-on', 'opens']);
    expect([plan.code, plan.out]).toEqual([3, expect.stringContaining('the base has no manifests at PATH')]);
    for (const { out } of [plan, await world.cli(['diff', 'base', 'n', '--fail-on', 'opens'])])
      expect(out).toMatch(
        /From 2099-01-01T00:00:00Z: opens for everyone; closes nothing\n {2}opens {4}10\.7\.0\.0\/16 for[^[]*\[fail-on-opens\]/,
      );
    world.write('n/a.yaml', closed);
    expect((await world.cli(['plan', 'n', '--base', 'base', '--fail-on', 'opens'])).code).toBe(0);
  });

  it.each([
    ['outside the scope', 'scope: {networks: [10.20.0.0/16]}\n', []],
    ['with --prune none', '{}\n', ['--prune', 'none']],
  ])('a live rule that stays, %s, is what a rule opens later too', async (_, settings, flags) => {
    const [access, later] = ['action: accept, destination: 10.20.2.0/24', ', notBefore: 2099-01-01'];
    world.write('m/a.yaml', closed);
    await world.cli(['m']);
    const team = rule('team', 'action: accept, destination: 10.20.1.0/24');
    world.write('base/a.yaml', team);
    world.write('new/README', 'no manifests yet');
    const protect = 'protect: [{destination: 10.20.2.0/24}]\n';
    world.write('s.yaml', settings === '{}\n' ? protect : settings + protect);
    expect((await world.cli(['apply', 'base', '--yes', '--config', 's.yaml', ...flags])).code).toBe(0);
    const plan = (base: string) =>
      world.cli(['plan', 'n', '--config', 's.yaml', ...flags, '--base', base, '--fail-on', 'opens']);
    world.write('n/a.yaml', team + rule('n', access + later));
    for (const base of ['base', 'new']) {
      const { code, out } = await plan(base);
      expect([code, out]).toEqual([3, expect.stringMatching(/\[protected-traffic\].*\[fail-on-opens\]/s)]);
      expect(out).toMatch(/From 2099-01-01T00:00:00Z: opens for everyone; closes nothing\n {2}opens {4}10\.20\.2\.0/);
    }
    // What stays under the same drop opens nothing, and neither does a drop that goes.
    world.write('n/a.yaml', team + rule('n', `${access.replace('accept', 'drop')}${later}, expires: 2099-02-01`));
    expect((await plan('base')).out).not.toMatch(/opens for|protected-traffic|fail-on-opens/);
  });

  it('what a live drop closes that no manifest held is open later, once a rule with `expires` is it', async () => {
    const net = 'destination: 10.20.2.0/24';
    const team = rule('team', 'action: accept, destination: 10.20.1.0/24');
    world.write('base/a.yaml', team);
    expect((await world.cli(['apply', 'base', '--yes'])).code).toBe(0);
    world.simulator.seed([{ action: 'drop', destination: '10.20.2.0/24' }]);
    const plan = (prune = 'none') => world.cli(['plan', 'n', '--prune', prune, '--base', 'base', '--fail-on', 'opens']);
    for (const prune of ['none', 'all']) {
      world.write('n/a.yaml', team + rule('d', `action: drop, ${net}, expires: 2099-01-01`));
      const { code, out } = await plan(prune);
      expect([code, out]).toEqual([3, expect.stringMatching(/From 2099-01-02T00:00:00Z: opens for everyone/)]);
      world.write('n/a.yaml', team + rule('d', `action: drop, ${net}`));
      expect((await plan(prune)).code).toBe(0);
    }
    // Of several that were to begin later, the first that nothing follows would have ended it.
    const one = (name: string, from: number, until: number) =>
      rule(name, `action: drop, ${net}, notBefore: ${from}-01-01, expires: ${until}-01-01T00:00:00Z`);
    world.write('base/a.yaml', team + one('d', 2090, 2091) + one('e', 2091, 2093) + one('f', 2095, 2097));
    expect((await plan()).out.match(/From \d+/g)).toEqual(['From 2093', 'From 2095', 'From 2097']);
  });

  it.each([
    ['no end', ''],
    ['a later end', ', expires: 2099-06-01'],
  ])('a request that asks again for access that has ended, with %s, opens what stays open', async (_, end) => {
    const visit = (more: string, net = '10.5.0.0/16') => rule('visit', `action: accept, destination: ${net}${more}`);
    const over = `, expires: "${inDays(1)}"`;
    world.write('m/a.yaml', closed + visit(over));
    await world.cli(['apply', '--yes', 'm']);
    world.write('s.yaml', 'protect: [{destination: 10.5.1.0/24}]\n');
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 3 * day });
    try {
      const plan = (...flags: string[]) => world.cli(['plan', 'n', '--base', 'm', ...flags]);
      world.write('n/a.yaml', closed + visit(end));
      const { code, out } = await plan('--fail-on', 'opens', '--config', 's.yaml');
      expect([code, out]).toEqual([3, expect.stringMatching(/\[protected-traffic\].*\[fail-on-opens\]/s)]);
      expect(out).toMatch(/^This revision: 1 change.* Drift on the server: 0\.$/m);
      expect(out).toMatch(/^ {2}= visit +accept 10\.5\.0\.0\/16 {2}\(live already, expires \d{4}\S+Z → (never|2099)/m);
      expect(out).toMatch(/opens for everyone; closes nothing\n {2}opens {4}10\.5\.0\.0\/16 for everyone$/m);
      expect((await plan('--fail-on', 'drift')).code).toBe(0);
      expect((await plan('--output', 'markdown')).out).toContain('10.5.0.0/16 for everyone');
      // Wider than it was, or in other words: what had ended counts too.
      world.write('n/a.yaml', closed + visit(end, '10.4.0.0/15'));
      expect((await plan()).out).toMatch(/opens for everyone; closes nothing\n {2}opens {4}10\.4\.0\.0\/15 for/);
      world.write('n/a.yaml', closed + visit(over) + rule('other', 'action: accept, destination: 10.5.0.0/17'));
      expect((await plan()).out).toMatch(/opens {4}10\.5\.0\.0\/17 for everyone\n {2}closes {3}10\.5\.128\.0\/17 for/);
      // What the base asks for too is not opened by the request, nor is what others made.
      world.write('m/a.yaml', closed + visit(over) + rule('next', 'action: accept, destination: 10.5.0.0/17'));
      expect((await plan('--fail-on', 'opens')).code).toBe(0);
      world.write('n/a.yaml', closed + rule('next', 'action: accept, destination: 10.5.0.0/17'));
      expect((await plan('--fail-on', 'opens')).code).toBe(0);
    } finally {
      vi.useRealTimers();
    }
  });

  it('what was made again after its end, or what the base ends too, is neither opened nor closed by a request', async () => {
    const visit = (more: string) => rule('visit', `action: accept, destination: 10.5.0.0/16${more}`);
    const ssh = 'port_type: tcp, port_range: 22';
    const hole = rule('hole', `action: drop, destination: 10.6.1.0/24, ${ssh}, expires: "${inDays(1)}"`);
    world.write('m/a.yaml', closed + visit(`, expires: "${inDays(1)}"`) + hole);
    world.simulator.seed([
      { action: 'drop', destination: '10.0.0.0/8' },
      { action: 'accept', destination: '10.5.0.0/16' },
      { action: 'drop', destination: '10.6.1.0/24', port_type: 'tcp', port_range: '22' },
      { action: 'accept', destination: '10.6.0.0/16' }, // by hand
    ]);
    const plan = async (from: string) => (await world.cli(['plan', from, '--base', 'm', '--fail-on', 'any'])).out;
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 3 * day });
    try {
      expect(await plan('m')).toMatch(/closes {3}10\.6\.0\.0\/16 but for 10\.6\.1\.0\/24 tcp 22, for everyone/);
    } finally {
      vi.useRealTimers();
    }
    world.write('m/a.yaml', closed + visit(', expires: "2026-01-01"')); // before it was made
    world.write('n/a.yaml', closed + visit(''));
    const told = /^Live already, though the base has no such rule: visit\.$.*opens nothing/ms;
    expect(await plan('n')).toMatch(told);
  });

  it('removing the line of a rule that has ended is its end, and no drift', async () => {
    const visit = rule('visit', `action: accept, destination: 10.5.0.0/16, expires: "${inDays(1)}"`);
    world.write('m/a.yaml', closed + visit);
    await world.cli(['apply', '--yes', 'm']);
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 3 * day });
    try {
      world.write('n/a.yaml', closed);
      const { code, out } = await world.cli(['plan', 'n', '--base', 'm', '--fail-on', 'drift']);
      expect([code, out]).toEqual([0, expect.stringMatching(/Drift on the server: 0\. Expired: 1\.$/m)]);
      expect(out).toMatch(/^ {2}- visit +accept 10\.5\.0\.0\/16 {2}\(expires \d{4}\S+Z\) {2}was a\.yaml:9$/m);
    } finally {
      vi.useRealTimers();
    }
  });

  it('says which rules that are live already a request takes over, also where the base has them begin later', async () => {
    const web = (begins: string) => rule('web', `action: accept, destination: 10.5.0.0/16${begins}`);
    world.write('m/a.yaml', closed);
    await world.cli(['m']);
    world.simulator.seed([{ action: 'accept', destination: '10.5.0.0/16' }]);
    world.write('n/a.yaml', closed + web(''));
    for (const before of [closed, closed + web(', notBefore: 2099-01-01')]) {
      world.write('m/a.yaml', before);
      const { code, out } = await world.cli(['plan', 'n', '--base', 'm', '--fail-on', 'opens']);
      const told = /^Live already, though the base has no such rule: web\.$/m;
      expect([code, out]).toEqual([0, expect.stringMatching(told)]);
    }
  });

  it('access that is to begin later is taken away, also with --prune none, and told by its name', async () => {
    const web = (times: string) => rule('web', `action: accept, destination: 10.20.2.0/24${times}`);
    world.write('m/a.yaml', closed + web(''));
    expect((await world.cli(['apply', 'm', '--yes'])).code).toBe(0);
    world.write('m/a.yaml', closed + web(', notBefore: 2099-01-01, expires: 2099-02-01'));
    for (const prune of ['all', 'none']) {
      const { code, out, err } = await world.cli(['plan', 'm', '--prune', prune, '--detailed-exitcode']);
      expect(code).toBe(2);
      expect(out).toMatch(/- web {2}accept 10\.20\.2\.0\/24 {2}\(begins in [^)]*2099-01-01T00:00:00Z\)\)/);
      expect(out + err).not.toMatch(/manifest/);
    }
    expect((await world.cli(['drift', 'm'])).out).toMatch(/only on the server +web /);
    expect((await world.cli(['apply', 'm', '--yes', '--prune', 'none'])).code).toBe(0);
    expect(world.simulator.rules().map(({ destination }) => destination)).not.toContain('10.20.2.0/24');
  });

  it('access whose line is removed before its end stays with --prune none, and the plan says so', async () => {
    const access = rule('guest', 'action: accept, destination: 10.20.2.0/24, expires: 2099-01-01');
    world.write('base/a.yaml', closed + access);
    expect((await world.cli(['apply', 'base', '--yes'])).code).toBe(0);
    world.write('n/a.yaml', closed);
    const plan = (...flags: readonly string[]) =>
      world.cli(['plan', 'n', '--prune', 'none', '--base', 'base', ...flags]);
    const { code, out } = await plan('--fail-on', 'opens');
    expect([code, out]).toEqual([3, expect.stringMatching(/From 2099-01-02T00:00:00Z: opens for everyone/)]);
    expect((await plan('--output', 'json')).out).toMatch(/"reason": ?"prune-off"/);
    expect((await plan('--output', 'json')).out).not.toContain('"expires"');
  });

  it('explain says of a rule that is not in force when it is', async () => {
    world.write('m/a.yaml', guest('2020-01-01') + closed);
    const run = await world.cli(['explain', '--rule', 'guest', 'm']);
    expect([run.code, run.err]).toEqual([1, expect.stringContaining('guest is not in force then: expires 2020-01-02')]);
    expect((await world.cli(['explain', '--rule', 'guest', '--at', '2019-12-01', 'm'])).code).toBe(0);
  });

  it('names the line to extend for a rule that one line makes beside others', async () => {
    const many = 'apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: lab}\nspec:\n  rules:\n';
    world.write('m/a.yaml', `${many}    - {name: web, action: accept, destinations: [10.1.0.1, 10.2.0.1]}\n`);
    const run = await world.cli(['extend', 'lab/web/10.1.0.1', 'm', '--until', '2099-01-01']);
    expect([run.code, run.err]).toEqual([1, expect.stringContaining('the line that makes it, SET/RULE')]);
  });

  it('a case of a PolicyTest with `at` tests the rules of then: in `test`, in a plan, and at its place when it is no time', async () => {
    const tests = (at: string, expected: string): string =>
      `apiVersion: firezone/v0\nkind: PolicyTest\nmetadata: {name: t}\nspec:\n  timezone: Europe/Berlin\n  cases:\n    - {destination: 10.1.2.3, expect: ${expected}, at: ${at}}\n`;
    world.write('m/a.yaml', guest(inDays(9)) + closed);
    world.write('m/t.yaml', tests('2099-01-01', 'drop'));
    expect((await world.cli(['test', 'm'])).code).toBe(0);
    expect((await world.cli(['--plan', 'm'])).code).toBe(0);
    world.write('m/t.yaml', tests('2099-01-01', 'accept'));
    const run = await world.cli(['test', 'm']);
    expect([run.code, run.out]).toEqual([3, expect.stringContaining('closed')]);
    expect(run.out).toContain('10.1.2.3 from nobody at 2098-12-31T23:00:00Z;');
    const plan = await world.cli(['--plan', '--output', 'json', 'm']);
    expect([plan.code, plan.json().refusals.map(({ code }) => code)]).toEqual([3, ['policy-test-failed']]);
    world.write('m/t.yaml', tests('2099-02-30', 'accept'));
    const bad = await world.cli(['test', 'm']);
    expect([bad.code, bad.out + bad.err]).toEqual([4, expect.stringContaining('t.yaml:7:')]);
  });
});

describe('a policy test that fails from a known time on', () => {
  const policyTest = (cases: string, above = ''): string =>
    `apiVersion: firezone/v0\nkind: PolicyTest\nmetadata: {name: t}\nspec:\n  cases:\n${above}    - {${cases}}\n---\n`;
  const expected = 'name: c, destination: 10.1.2.3, protocol: tcp, port: 443, expect: accept';

  it('is a warning at its place in validate and test, before every plan is refused', async () => {
    world.write('m/a.yaml', guest('2099-01-31') + closed);
    world.write('m/t.yaml', policyTest(expected));
    for (const command of ['validate', 'test']) {
      const run = await world.cli([command, 'm']);
      expect([run.code, run.out]).toEqual([
        0,
        expect.stringContaining(
          't.yaml:6:7 warning [policy-test-fails-later] From 2099-02-01T00:00:00Z on: `c` expects accept for 10.1.2.3',
        ),
      ]);
      expect(run.out).toContain('`closed` decides');
      expect(run.out).toContain(
        'hint: `guest` ends then: extend it, or write `at:` with a time before that in the case',
      );
      const strict = await world.cli([command, '--strict', 'm']);
      expect([strict.code, strict.out]).toEqual([4, expect.stringContaining('error [policy-test-fails-later]')]);
    }
    expect((await world.cli(['test', '--at', '2099-02-01', 'm'])).code).toBe(3);
  });

  it.each([
    ['with a time of its own', policyTest(`${expected}, at: 2098-01-01`)],
    ['that fails now', policyTest(expected.replace('accept', 'drop'))],
    ['that other traffic is about', policyTest('destination: 10.9.0.0/16, expect: drop')],
    [
      'that is said to be meant',
      policyTest(expected, '    # reconcile-ignore: policy-test-fails-later it is renewed\n'),
    ],
  ])('says nothing of a case %s', async (_, text) => {
    world.write('m/a.yaml', guest('2099-01-31') + closed);
    world.write('m/t.yaml', text);
    for (const command of ['validate', 'test'])
      expect((await world.cli([command, 'm'])).out).not.toContain('policy-test-fails-later');
  });
});

describe('wrong dates, zones, schedules and durations are problems at their place', () => {
  const inRule = (fields: string): string =>
    `apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: r}\nspec:\n  action: accept\n  destination: 10.0.0.0/8\n${fields}\n`;
  const inSet = (spec: string, fields: string): string =>
    `apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: s}\nspec:\n  ${spec}\n  rules:\n    - {name: a, action: accept, destination: 10.0.0.0/8${fields}}\n`;
  const inTest = (spec: string, at: string): string =>
    `apiVersion: firezone/v0\nkind: PolicyTest\nmetadata: {name: t}\nspec:\n  ${spec}\n  cases:\n    - {destination: 10.1.2.3, expect: accept, at: ${at}}\n`;

  it.each([
    ['a month that is none', inRule('  expires: 2026-13-01'), 'a.yaml:7:12', 'There is no such day'],
    ['a day that is none', inRule('  expires: 2026-02-30'), 'a.yaml:7:12', 'There is no such day'],
    ['a leap day of another year', inRule('  notBefore: 2027-02-29'), 'a.yaml:7:14', 'There is no such day'],
    ['a time of day that is none', inRule('  expires: "2026-12-01T25:00:00Z"'), 'a.yaml:7:12', 'There is no such day'],
    ['a local time', inRule('  expires: "2026-12-01T18:00:00"'), 'a.yaml:7:12', 'zone'],
    ['a word', inRule('  expires: tomorrow'), 'a.yaml:7:12', 'is not a time'],
    ['a number', inRule('  expires: 20261201'), 'a.yaml:7:12', 'expires'],
    ['an offset that is none', inRule('  expires: "2026-12-01T18:00:00+25:00"'), 'a.yaml:7:12', 'is not a time'],
    ['an end before the beginning', inRule('  notBefore: 2026-12-02\n  expires: 2026-12-01'), 'a.yaml:8:', 'notBefore'],
    ['in a set', inSet('expires: 2026-02-30', ''), 'a.yaml:5:12', 'There is no such day'],
    ['in a rule of a set', inSet('timezone: UTC', ', expires: soon'), 'a.yaml:7:', 'is not a time'],
    ['a zone that is none', inSet('timezone: Europe/Berlun', ''), 'a.yaml:5:13', 'Berlun'],
    ['a zone in a case', inTest('timezone: Mars', '2026-12-01'), 'a.yaml:5:13', 'Mars'],
    ['a time in a case', inTest('timezone: UTC', 'noon'), 'a.yaml:7:', 'is not a time'],
  ])('in a manifest: %s', async (_, text, place, words) => {
    world.write('m/a.yaml', text);
    const run = await world.cli(['validate', 'm']);
    expect([run.code, run.out + run.err]).toEqual([4, expect.stringContaining(place)]);
    expect(run.out + run.err).toContain(words);
  });

  const always = '{kind: deny, schedule: "* * * * *", duration: 1h';
  it.each([
    ['windows:\n  - {kind: deny, schedule: "61 * * * *", duration: 1h}', 's.yaml:2:18', 'Invalid value for minute'],
    ['windows:\n  - {kind: deny, schedule: "* * *", duration: 1h}', 's.yaml:2:18', 'has 3 fields'],
    ['windows:\n  - {kind: deny, schedule: "0 0 30 2 *", duration: 1h}', 's.yaml:2:18', 'no month has'],
    ...['24', '""', '"5"', '0m', '5s', '32d', '5w', '1.5h', '-1h'].map((duration): [string, string, string] => [
      `windows:\n  - {kind: deny, schedule: "* * * * *", duration: ${duration}}`,
      's.yaml:2:41',
      'from 1m to 31d',
    ]),
    [`windows:\n  - ${always}, timezone: Europe/Berlun}`, 's.yaml:2:55', 'is not a time zone'],
    ['maxExpiry: 3 months', 's.yaml:1:1', 'hours, days or weeks'],
    ['\nnotifyBefore: 24', 's.yaml:2:1', 'must be hours, days or weeks, such as 12h, 90d or 4w'],
    ['maxExpiry: 90', 's.yaml:1:1', 'must be hours, days or weeks, such as 12h, 90d or 4w'],
    ['notifyBefore: 24m', 's.yaml:1:1', 'hours, days or weeks'],
    ['interval: 5x', 's.yaml:1:1', 'a time with a unit'],
    ['quiet: soon', 's.yaml:1:1', 'a time with a unit'],
    ['yes: true\ntotalTimeout: -1s', 's.yaml:2:1', 'a time with a unit'],
  ])('in the settings: %s', async (text, place, words) => {
    world.write('m/a.yaml', closed);
    world.write('s.yaml', `${text}\n`);
    const run = await world.cli(['plan', 'm', '--config', 's.yaml']);
    expect([run.code, run.err]).toEqual([1, expect.stringContaining(place)]);
    expect(run.err).toContain(words);
  });

  it('says all that is wrong with a window at once', async () => {
    world.write('m/a.yaml', closed);
    world.write(
      's.yaml',
      'windows:\n  - {kind: deny, schedule: "61 * * * *", duration: 5s, timezone: Europe/Berlun}\n',
    );
    const { code, err } = await world.cli(['plan', 'm', '--config', 's.yaml']);
    const places = [18, 42, 56].map((column) => expect.stringContaining(`s.yaml:2:${column}`));
    expect([code, err, err, err]).toEqual([1, ...places]);
  });

  it.each([
    ['--at', 'noon', ['plan', 'm']],
    ['--within', '3 months', ['expiring', 'm']],
    ['--until', '2026-02-30', ['extend', 'closed', 'm']],
    ['--confirm-within', 'soon', ['apply', 'm']],
  ])('on the command line: %s %s', async (flag, value, command) => {
    world.write('m/a.yaml', closed);
    const run = await world.cli([...command, flag, value]);
    expect([run.code, run.err]).toEqual([1, expect.stringContaining(`${flag}`)]);
    expect(world.simulator.requests().filter(({ method }) => method !== 'GET')).toEqual([]);
  });
});

describe('a scheduled one-shot apply, when rules have ended', () => {
  const hours = (count: number): string => new Date(Date.now() + count * 3_600_000).toISOString();
  const many = (end: string): string =>
    Array.from({ length: 12 }, (_, n) =>
      rule(`r${n}`, `action: accept, destination: 10.${n}.0.0/16, expires: "${end}"`),
    ).join('');

  beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'], now: Date.now() }));
  afterEach(() => void vi.useRealTimers());

  it.each<[string, string, string, number]>([
    ['are no deletes for the limits where the last apply held them with this end', 'state', 'state', 0],
    ['are deletes like any other without that record', 'state', 'other', 3],
  ])('%s', async (_, first, second, code) => {
    world.write('m/a.yaml', many(hours(1)) + closed);
    expect((await world.cli(['m', '--state-dir', first])).code).toBe(0);
    vi.setSystemTime(Date.now() + 2 * 3_600_000);
    expect((await world.cli(['--plan', 'm', '--state-dir', second])).code).toBe(code);
    const run = await world.cli(['m', '--state-dir', second]);
    expect([run.code, world.simulator.rules().length]).toEqual([code, code === 0 ? 1 : 13]);
    if (code === 3) expect(run.out + run.err).toMatch(/too-many-deletes[\s\S]*too-many-changes/);
  });

  it('are no deletes for the limits either where the run was killed before its end, and the history alone knows them', async () => {
    world.write('m/a.yaml', many(hours(1)) + closed);
    expect((await world.cli(['m', '--state-dir', 'state'])).code).toBe(0);
    rmSync(join(world.folder, 'state/reconcile/oneshot/record.json'));
    vi.setSystemTime(Date.now() + 2 * 3_600_000);
    const history = join(world.folder, 'state/reconcile/history/1.json');
    const text = readFileSync(history, 'utf8');
    // Of another server it says nothing.
    writeFileSync(history, text.replaceAll(world.simulator.url, 'https://other.example.com'));
    expect((await world.cli(['m', '--state-dir', 'state'])).code).toBe(3);
    writeFileSync(history, text);
    const run = await world.cli(['m', '--state-dir', 'state']);
    expect([run.code, world.simulator.rules().length]).toEqual([0, 1]);
  });

  it('are deletes like any other where their end was set after it had passed', async () => {
    world.write('m/a.yaml', many(hours(48)) + closed);
    await world.cli(['m', '--state-dir', 'state']);
    world.write('m/a.yaml', many(hours(-1)) + closed);
    const run = await world.cli(['m', '--state-dir', 'state']);
    expect([run.code, world.simulator.rules().length]).toEqual([3, 13]);
  });
});

describe('reconcile extend', () => {
  const set = `# who: security
apiVersion: firezone/v0
kind: RuleSet
metadata: {name: lab}
spec:
  expires: 2099-06-30   # the project's end
  rules:
    # the contractor
    - name: guest   # until spring
      action: accept
      destination: 10.1.0.0/16
    - {name: web, action: accept, destination: 10.2.0.0/16, expires: 2098-01-01} # web
    - {name: first, action: accept, destination: 10.3.0.0/16, expires: &end 2098-01-01}
    - {name: second, action: accept, destination: 10.4.0.0/16, expires: *end}
    - name: third
      expires: |-
        2098-01-01
      action: accept
      destination: 10.5.0.0/16
`;

  it.each([
    ['lab/web', '2099-03-31', (text: string) => text.replace('2098-01-01', '2099-03-31')],
    [
      'lab/web',
      '2099-03-31T18:00:00+01:00',
      (text: string) => text.replace('2098-01-01', '"2099-03-31T18:00:00+01:00"'),
    ],
    ['lab', '2100-01-01', (text: string) => text.replace('2099-06-30', '2100-01-01')],
  ])('writes the end of %s, %s, and nothing else', async (name, until, edit) => {
    world.write('m/a.yaml', set);
    const run = await world.cli(['extend', name, 'm', '--until', until]);
    expect([run.code, run.err]).toEqual([0, '']);
    expect(world.read('m/a.yaml')).toBe(edit(set));
    expect(run.out).toMatch(new RegExp(`^m/a.yaml: ${name} ends at \\d{4}-.*, not \\d{4}-`));
    expect((await world.cli(['validate', 'm'])).code).toBe(0);
  });

  it('names the folder of the manifests, where PATH is left out and settings lie above it', async () => {
    world.write('policy/a.yaml', set);
    world.write('settings.yaml', 'maxDeletes: 10%\n');
    const run = await world.cli(['extend', 'lab/web', '--until', '2099-03-31']);
    expect([run.code, run.err]).toEqual([
      4,
      expect.stringMatching(
        /settings\.yaml is no manifest\n +hint: .*`reconcile extend lab\/web policy --until 2099-03-31`\n$/,
      ),
    ]);
  });

  it('keeps the quotes that stand there, so that JSON stays JSON', async () => {
    const spec = { action: 'accept', destination: '10.1.0.0/16', expires: '2099-01-01' };
    const json = JSON.stringify({ apiVersion: 'firezone/v0', kind: 'Rule', metadata: { name: 'guest' }, spec });
    for (const [text, until] of [
      [json, '2099-03-31'],
      [json.replaceAll('"', "'"), '2099-03-31T18:00:00Z'],
    ] as const) {
      world.write('m/a.yaml', text);
      expect((await world.cli(['extend', 'guest', 'm', '--until', until])).err).toBe('');
      expect(world.read('m/a.yaml')).toBe(text.replace('2099-01-01', until));
    }
  });

  it('writes to where the overlay takes the rule from, and nowhere else', async () => {
    const overlay = 'apiVersion: firezone/v0\nkind: Overlay\nmetadata: {name: p}\nspec: {bases: [../base]}\n';
    const own = set.replace('2099-06-30', '2099-07-31');
    for (const [file, text] of [
      ['base/a.yaml', set],
      ['production/o.yaml', overlay],
      ['staging/o.yaml', overlay],
      ['staging/a.yaml', own],
    ] as const)
      world.write(`m/${file}`, text);
    const extend = ['extend', 'lab', 'm', '--until', '2100-01-01'];
    expect((await world.cli(extend)).out + (await world.cli(extend)).err).toContain('overlay-not-chosen');
    const staging = await world.cli([...extend, '--overlay', 'staging/']);
    expect([staging.code, staging.err, staging.out]).toEqual([
      0,
      '',
      expect.stringMatching(/^m\/staging\/a\.yaml: lab/),
    ]);
    expect([world.read('m/base/a.yaml'), world.read('m/staging/a.yaml')]).toEqual([
      set,
      own.replace('2099-07-31', '2100-01-01'),
    ]);
    const production = await world.cli([...extend, '--overlay', 'production']);
    expect([production.code, world.read('m/base/a.yaml')]).toEqual([0, set.replace('2099-06-30', '2100-01-01')]);
  });

  it('of a set whose rules end earlier by themselves, and then of such a rule', async () => {
    const spec = 'timezone: Europe/Berlin, expires: 2098-12-10, rules: [';
    const rules = '{name: r, action: accept, destination: 10.1.0.0/16, expires: 2098-12-01}]';
    world.write('m/a.yaml', `apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: s}\nspec: {${spec}${rules}}\n`);
    const extend = (name: string) => world.cli(['extend', name, 'm', '--until', '2098-12-20']);
    const early = await extend('s/r');
    expect([early.code, early.err]).toEqual([1, expect.stringContaining('extend its set first: s')]);
    const set = await extend('s');
    expect([set.code, set.err, set.out]).toEqual([
      0,
      '',
      'm/a.yaml: s ends at 2098-12-20T23:00:00Z, not 2098-12-10T23:00:00Z; earlier, by their own `expires`: s/r\n',
    ]);
    const own = await extend('s/r');
    expect([own.code, own.out]).toEqual([
      0,
      expect.stringContaining('s/r ends at 2098-12-20T23:00:00Z, not 2098-12-01T'),
    ]);
    expect(world.read('m/a.yaml')).toContain(spec.replace('10', '20') + rules.replace('12-01', '12-20'));
    expect((await extend('s')).out).toBe('m/a.yaml: s ends at 2098-12-20T23:00:00Z, not 2098-12-20T23:00:00Z\n');
  });

  it('does not put a date in place of a value, which other environments read too', async () => {
    const written = rule('x', `action: accept, destination: 10.1.0.0/16, expires: "\${until}"`);
    world.write('m/a.yaml', written);
    world.write('va.yaml', 'until: "2098-12-01"\n');
    const run = await world.cli(['extend', 'x', 'm', '--until', '2098-12-20', '--values', 'va.yaml']);
    expect([run.code, run.err]).toEqual([
      1,
      expect.stringContaining('x has no end of its own that can be edited here'),
    ]);
    expect(run.err).toContain('where it is a value, in the --values file');
    expect(world.read('m/a.yaml')).toBe(written);
  });

  it('keeps a file with CRLF as one', async () => {
    const windows = set.replaceAll('\n', '\r\n');
    world.write('m/a.yaml', windows);
    expect((await world.cli(['extend', 'lab/web', 'm', '--until', '2099-01-01'])).code).toBe(0);
    expect(world.read('m/a.yaml')).toBe(windows.replace('2098-01-01', '2099-01-01'));
  });

  it.each([
    [['lab/guest', 'm', '--until', '2099-12-31'], 'lab/guest has no end of its own'],
    [['lab/web', 'm', '--until', '2099-12-31'], 'lab/web would end at 2099-07-01T00:00:00Z all the same'],
    [['lab/web', 'm', '--until', '2097-01-01'], 'lab/web already ends later, at 2098-01-02T00:00:00Z'],
    [['lab', 'm', '--until', '2099-01-01'], 'lab already ends later'],
    [['closed', 'm', '--until', '2099-01-01'], 'closed has no end of its own'],
    [['closed', 'm', '--until', '2099-01-01'], 'extend a rule of it, SET/RULE; or write `expires` by hand'],
    [['lab', 'm', '--until', '2099-01-01'], '[usage]'],
    [['own', 'm', '--until', '2098-03-01'], 'own already ends later, at 2098-06-02T00:00:00Z'],
    [['own/x', 'm', '--until', '2099-01-01'], 'extend its set first: own'],
    [['lab/gest', 'm', '--until', '2099-01-01'], 'lab/guest'],
    [['lab/web', 'm', '--until', '2099-07-01'], 'lab/web would end at 2099-07-01T00:00:00Z all the same'],
    [['lab/web', 'm', '--until', '2099-07-01T00:00:01Z'], 'would end at 2099-07-01T00:00:00Z all the same'],
    [['none', 'm', '--until', '2099-01-01'], 'no rule or set none with an end here'],
    [['lab', '-', '--until', '2100-01-01'], 'extend takes the name of a rule or set, and --until'],
    [['lab/first', 'm', '--until', '2099-03-31'], 'lab/first has no end of its own that can be edited here'],
    [['lab/third', 'm', '--until', '2099-03-31'], 'lab/third has no end of its own that can be edited here'],
    [['lab/second', 'm', '--until', '2099-03-31'], 'lab/second has no end of its own that can be edited here'],
    [['lab/guest', 'm', '--until', '2099-02-30'], '--until 2099-02-30 is not a time'],
    [['lab/guest', 'm', '--until', '2019-01-05'], '--until 2019-01-05 has passed'],
    [['lab/guest', 'm'], '--until'],
    [['lab/web', 'm', '--until', '2099-03-31', '--config', 's.yaml'], 'later than `maxExpiry`'],
  ])('refuses %j, and the file stays as it is', async (words, says) => {
    world.write('m/a.yaml', set);
    world.write('m/closed.yaml', closed);
    world.write('m/none.yaml', 'apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: none}\nspec:\n  rules: []\n');
    const own = '{name: x, action: accept, destination: 10.9.0.0/16, expires: 2098-01-01}';
    const head = 'apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: own}\nspec:\n';
    world.write('m/own.yaml', `${head}  expires: 2098-06-01\n  rules:\n    - ${own}\n`);
    world.write('s.yaml', 'maxExpiry: 4w\n');
    const run = await world.cli(['extend', ...words]);
    expect(run.code).not.toBe(0);
    expect(run.out + run.err).toContain(says);
    expect(world.read('m/a.yaml')).toBe(set);
  });
});
