import { execFileSync } from 'node:child_process';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { alice, bob, rule, startWorld, token, type World } from './harness.ts';
import { hasPty, runOnTerminal } from './pty.ts';

let world: World;
beforeEach(async () => {
  world = await startWorld();
  world.write('m/a.yaml', rule('a', 'action: drop, destination: 10.0.0.0/8'));
});
afterEach(() => world.close());

describe('people whom only the server knows', () => {
  const email = 'alice@example.com';
  beforeEach(() => {
    world.simulator.seed([{ action: 'accept', destination: '10.2.0.5', user_id: alice }]);
  });

  it('a pipe, a file and JSON show a short id, and no request asks for users', async () => {
    const run = await world.cli([
      '--plan',
      '--output',
      'text',
      '--output',
      'markdown=plan.md',
      '--output',
      'json=plan.json',
      'm',
    ]);
    expect(run.out).toContain('accept 10.2.0.5 for user a1520c4b');
    for (const text of [run.out, run.err, world.read('plan.md'), world.read('plan.json')])
      expect(text).not.toContain(email);
    expect(world.simulator.requests().some(({ path }) => path.startsWith('/v0/users'))).toBe(false);
  });

  it('--show-emails names them everywhere, and neither it nor a lost list changes the digest', async () => {
    const digest = async (...args: readonly string[]) =>
      (await world.cli(['--plan', '--output', 'json', ...args, 'm'])).json()['digest'];
    const plain = await digest();
    const run = await world.cli(['--plan', '--show-emails', '--output', 'text', '--output', 'markdown=plan.md', 'm']);
    expect(run.out).toContain(`accept 10.2.0.5 for ${email}`);
    expect(world.read('plan.md')).toContain(email);
    expect(await digest('--show-emails')).toBe(plain);
  });

  it('an address that the manifests have for another user is not shown for both', async () => {
    const users = `apiVersion: firezone/v0\nkind: Users\nmetadata: {name: people}\nspec: {${email}: ${bob}}\n`;
    world.write('m/users.yaml', users);
    world.write('m/b.yaml', rule('b', `action: accept, destination: 10.3.0.5, user: ${email}`));
    const { out } = await world.cli(['--plan', '--show-emails', 'm']);
    expect(out).toContain(`accept 10.3.0.5 for ${email}`);
    expect(out).toContain('accept 10.2.0.5 for user a1520c4b');
  });

  it.skipIf(!hasPty)('a terminal names them, a file written by the same run does not', async () => {
    const run = await runOnTerminal(['--plan', '--output', 'text', '--output', 'markdown=plan.md', 'm'], {
      cwd: world.folder,
      env: { RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token, HOME: world.folder },
    });
    expect([run.code, run.screen]).toEqual([0, expect.stringContaining(`accept 10.2.0.5 for ${email}`)]);
    expect(world.read('plan.md')).not.toContain(email);
  });
});

describe('deleted rules', () => {
  const git = (...args: readonly string[]) =>
    execFileSync('git', ['-C', world.folder, '-c', 'user.name=t', '-c', 'user.email=t@example.com', ...args]);

  it('go by the name that the commit at hand gives them, unless RECONCILE_REVISION is set', async () => {
    world.write('m/b.yaml', rule('b', 'action: drop, destination: 192.0.2.0/24'));
    git('init', '-q');
    git('add', 'm');
    git('commit', '-qm', 'both');
    world.simulator.seed([
      { action: 'drop', destination: '10.0.0.0/8' },
      { action: 'drop', destination: '192.0.2.0/24' },
    ]);
    world.write('m/b.yaml', '# gone\n');
    const named = await world.cli(['--plan', 'm']);
    expect(named.out).toMatch(/ {2}- b {2}drop 192\.0\.2\.0\/24 {2}was b\.yaml:4/);
    const unnamed = await world.cli(['--plan', 'm'], { env: { RECONCILE_REVISION: '4df71eb (main)' } });
    expect(unnamed.out).toMatch(/ {2}- {2}drop 192\.0\.2\.0\/24 {2}[0-9a-f]{8}/);
  });

  it('go by the name of the last apply, and carry no annotation at a line of today', async () => {
    world.write('m/b.yaml', rule('b', 'action: drop, destination: 192.0.2.0/24'));
    await world.cli(['--state-dir', 'state', 'm']);
    world.write('m/b.yaml', '# gone\n');
    const run = await world.cli(['plan', '--state-dir', 'state', '--output', 'text', '--output', 'github', 'm']);
    expect(run.out).toContain('was b.yaml:4');
    expect(run.out + run.err).not.toMatch(/^::notice file=m\/b\.yaml/m);
  });
});
