import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Simulator, startSimulator } from '../../src/simulator/server.ts';
import { document } from '../desired/helpers.ts';
import { type Workspace, workspace } from './cli.ts';

const alice = 'a1520c4b-adc3-4574-932a-94461cf85c07';
const bob = 'b9692cfa-f429-4ea6-947f-ad22d40fd18b';

let simulator: Simulator;
let place: Workspace;

beforeEach(async () => {
  simulator = await startSimulator({
    token: 'test-token',
    users: [
      { name: 'alice', id: alice },
      { name: 'bob', id: bob },
    ],
  });
  place = workspace({ RECONCILE_TOKEN: 'test-token', RECONCILE_BASE_URL: simulator.url });
});

afterEach(async () => {
  place.remove();
  await simulator.close();
});

/** A repository with its settings file, outside its manifests. */
function repository(name: string, scope: string, ...rules: readonly string[]): void {
  mkdirSync(path.join(place.directory, name), { recursive: true });
  writeFileSync(path.join(place.directory, `${name}.yaml`), `scope: ${scope}\n`);
  const set = document('RuleSet', name, `{rules: [${rules.map((rule, i) => `{name: r${i}, ${rule}}`).join(', ')}]}`);
  writeFileSync(path.join(place.directory, name, 'rules.yaml'), set);
}

const destinations = (): readonly string[] =>
  simulator
    .rules()
    .map((rule) => rule.destination)
    .sort();

describe('two repositories with disjoint scopes', () => {
  const apply = (name: string, ...more: readonly string[]) => place.run(name, '--config', `${name}.yaml`, ...more);

  it('each keep their own users’ rules, and delete nothing of the other', async () => {
    repository(
      'ours',
      `{users: [${alice}], configuration: false}`,
      `action: drop, destination: 10.0.0.1, user_id: ${alice}`,
    );
    repository(
      'theirs',
      `{users: [${bob}, global], configuration: false}`,
      `action: drop, destination: 10.0.0.2, user_id: ${bob}`,
      'action: drop, destination: 10.0.0.3',
    );
    for (const name of ['ours', 'theirs', 'ours']) expect((await apply(name)).code).toBe(0);
    expect(destinations()).toEqual(['10.0.0.1', '10.0.0.2', '10.0.0.3']);
    for (const name of ['ours', 'theirs']) expect((await apply(name, '--plan', '--detailed-exitcode')).code).toBe(0);
    repository('theirs', `{users: [${bob}, global], configuration: false}`, 'action: drop, destination: 10.0.0.4');
    expect((await apply('theirs', '--allow-empty')).code).toBe(0);
    expect(destinations()).toEqual(['10.0.0.1', '10.0.0.4']);
    expect((await apply('ours', '--plan', '--detailed-exitcode')).code).toBe(0);
    expect(simulator.requests().some(({ path: one }) => one === '/v0/configuration')).toBe(false);
  });

  it('by networks; a manifest outside the scope is a problem, and one in the way of a rule outside it is refused', async () => {
    repository('ours', '{networks: [10.0.0.0/16], configuration: false}', 'action: drop, destination: 10.0.0.1');
    repository('theirs', '{networks: [10.1.0.0/16], configuration: false}', 'action: drop, destination: 10.1.0.0/16');
    for (const name of ['ours', 'theirs']) expect((await apply(name)).code).toBe(0);
    repository('ours', '{networks: [10.0.0.0/16], configuration: false}', 'action: drop, destination: 10.1.0.1');
    const outside = await apply('ours', '--plan');
    expect(outside.code).toBe(4);
    expect(outside.stdout + outside.stderr).toContain('outside-scope');
    simulator.seed([{ action: 'drop', destination: '10.0.0.0/8' }]);
    repository('ours', '{networks: [10.0.0.0/16], configuration: false}', 'action: drop, destination: 10.0.0.2');
    const refused = await apply('ours');
    expect(refused.code).toBe(3);
    expect(refused.stdout + refused.stderr).toContain('10.0.0.0/8');
    expect(destinations()).toEqual(['10.0.0.0/8', '10.0.0.1', '10.1.0.0/16']);
  });

  it('one for the rules alone, one for the Configuration alone', async () => {
    repository('ours', '{configuration: false}', 'action: drop, destination: 10.0.0.1');
    repository('theirs', '{rules: false}');
    writeFileSync(
      path.join(place.directory, 'theirs/rules.yaml'),
      document('Configuration', 'main', '{default_client_mtu: 1300}'),
    );
    for (const name of ['ours', 'theirs', 'ours', 'theirs']) {
      const run = await apply(name);
      expect(run.code, run.stdout + run.stderr).toBe(0);
    }
    expect(destinations()).toEqual(['10.0.0.1']);
    expect(simulator.configuration()['default_client_mtu']).toBe(1300);
  });
});

describe('a scope', () => {
  const run = (...argv: readonly string[]) => place.run(...argv, '--config', 'ours.yaml');

  it.each([
    ['{networks: [10.0.0.0/16, "2001:db8:1::/48"], configuration: false}', ['10.0.0.0/24', '2001:db8:1::1']],
    ['{users: [global], configuration: false}', ['10.0.0.0/8', '2001:db8::/32']],
    ['{rules: false}', []],
  ])('%s: exports what is inside it, and that is in sync', async (scope, inside) => {
    repository('ours', scope);
    simulator.seed([
      { action: 'drop', destination: '10.0.0.0/24', user_id: alice },
      { action: 'drop', destination: '2001:db8:1::1', user_id: alice },
      { action: 'drop', destination: '10.0.0.0/8' },
      { action: 'accept', destination: '2001:db8::/32' },
    ]);
    const exported = await run('export', '--out', 'out');
    expect(exported.code, exported.stderr).toBe(0);
    const text = (await run('export')).stdout;
    const inRules = (await run('export', '--rules-only')).stdout;
    const written = [...inRules.matchAll(/(?:destination:|-) "?([0-9a-f.:]+[/0-9]*)"?$/gm)].map(([, one]) => one);
    expect(written.sort()).toEqual(inside);
    const plan = await run('--plan', 'out', '--detailed-exitcode');
    expect(plan.code, plan.stdout + plan.stderr).toBe(0);
    expect(text.includes('RuleSet')).toBe(!scope.includes('rules: false'));
  });

  it('of users holds rules that name them by their e-mail address, and of nobody else', async () => {
    repository(
      'ours',
      `{users: [${alice}], configuration: false}`,
      'action: drop, destination: 10.0.0.1, user: alice@example.test',
    );
    expect((await run('validate', 'ours')).code).toBe(0);
    const applied = await run('ours');
    expect(applied.code, applied.stdout + applied.stderr).toBe(0);
    expect(simulator.rules()).toMatchObject([{ destination: '10.0.0.1', user_id: alice }]);
    expect((await run('export', '--out', 'out')).code).toBe(0);
    expect((await run('--plan', 'out', '--detailed-exitcode')).code).toBe(0);
    repository(
      'ours',
      `{users: [${alice}], configuration: false}`,
      'action: drop, destination: 10.0.0.1, user: bob@example.test',
    );
    const refused = await run('ours');
    expect([refused.code, refused.stdout + refused.stderr]).toEqual([4, expect.stringContaining('outside-scope')]);
    expect(simulator.rules()).toMatchObject([{ destination: '10.0.0.1', user_id: alice }]);
  });

  it('without rules holds no policy tests: there is nothing that they could be tested on', async () => {
    repository('ours', '{rules: false}');
    const cases = '{cases: [{destination: 10.0.0.5, expect: accept}]}';
    const text = `${document('Configuration', 'main', '{default_client_mtu: 1300}')}---\n${document('PolicyTest', 't', cases)}`;
    writeFileSync(path.join(place.directory, 'ours/rules.yaml'), text);
    const refused = await run('ours');
    expect(refused.code).toBe(4);
    expect(refused.stderr + refused.stdout).toContain('rules.yaml:8:18 error [outside-scope] The policy test `t`');
    expect(simulator.configuration()['default_client_mtu']).toBe(1280);
  });
});
