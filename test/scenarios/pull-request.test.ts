import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { alice, ended, spawnReconcile, startWorld, token, type World } from '../cli/harness.ts';

let world: World;
beforeEach(async () => {
  world = await startWorld();
});
afterEach(() => world.close());

/** The built command as a process, with the environment of a CI job and nothing else. */
async function reconcile(
  cwd: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<{ readonly code: number | null; readonly out: string; readonly err: string }> {
  const job = {
    CI: 'true',
    RECONCILE_BASE_URL: world.simulator.url,
    RECONCILE_TOKEN: token,
    RECONCILE_YES: 'true',
    ...env,
  };
  return ended(spawnReconcile(args, { cwd, env: job }));
}

function git(cwd: string, ...args: readonly string[]): string {
  return execFileSync('git', ['-c', 'user.name=T', '-c', 'user.email=t@example.com', ...args], {
    cwd,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  }).trim();
}

const policy = `apiVersion: firezone/v0
kind: Users
metadata: {name: people}
spec: {alice: ${alice}}
---
apiVersion: firezone/v0
kind: RuleSet
metadata: {name: office}
spec:
  rules:
    - {name: closed, action: drop, destination: 10.0.0.0/8}
    - {name: web, action: accept, destination: 10.1.0.0/16, port_type: tcp, port_range: 443}
    - {name: metadata, action: drop, destination: 169.254.169.254}
`;

describe('a pull request, from branch to comment to merge to apply to drift to heal', () => {
  it('plays through with real Git, the built command and the simulated server', async () => {
    const [origin, mine, runner] = ['origin.git', 'mine', 'runner'].map((name) => join(world.folder, name)) as [
      string,
      string,
      string,
    ];

    // A repository whose main branch is applied.
    git(world.folder, 'init', '-q', '--bare', '--initial-branch=main', origin);
    git(world.folder, 'clone', '-q', origin, mine);
    world.write('mine/policy/rules.yaml', policy);
    git(mine, 'add', '-A');
    git(mine, 'commit', '-q', '-m', 'The policy');
    git(mine, 'push', '-q', 'origin', 'HEAD:main');
    expect((await reconcile(mine, ['policy'])).code).toBe(0);
    expect(world.simulator.rules()).toHaveLength(3);

    // A branch: alice gets the database, the metadata service is closed for its whole network.
    git(mine, 'checkout', '-q', '-b', 'database');
    world.write(
      'mine/policy/rules.yaml',
      `${policy.replace('169.254.169.254', '169.254.0.0/16')}    - {name: db, action: accept, destination: 10.2.0.5, port_type: tcp, port_range: 5432, user: alice}\n`,
    );
    expect((await reconcile(mine, ['validate', 'policy'])).code).toBe(0);
    git(mine, 'commit', '-q', '-a', '-m', 'Open the database for alice');
    git(mine, 'push', '-q', 'origin', 'database');

    // Meanwhile somebody changes the server by hand.
    world.simulator.seed([{ action: 'accept', destination: '203.0.113.7' }]);

    // CI plans the branch against main: the comment says what the pull request does, and what is drift.
    git(world.folder, 'clone', '-q', '--branch', 'database', origin, runner);
    const planned = await reconcile(
      runner,
      [
        '--plan',
        '--base',
        'origin/main',
        '--output',
        'markdown=comment.md',
        '--output',
        'json=plan.json',
        '--output',
        'github',
        'policy',
      ],
      { GITHUB_STEP_SUMMARY: join(runner, 'summary.md') },
    );
    expect([planned.code, planned.err]).toEqual([0, '']);
    const comment = world.read('runner/comment.md');
    expect(comment).toContain('This revision: 2 changes. Drift on the server: 1.');
    expect(comment).toMatch(/\*\*opens\*\* `10\.2\.0\.5 tcp 5432 for alice`/);
    expect(comment).toMatch(/\*\*closes\*\* `169\.254\.0\.0/);
    expect(comment).toContain('policy/rules.yaml:');
    expect(planned.out).toMatch(/^::notice file=policy\/rules\.yaml,line=\d+,title=create office\/db::/m);
    expect(world.read('runner/summary.md')).toBe(comment);
    expect(world.simulator.requests().filter(({ method }) => method === 'DELETE')).toEqual([]);

    // A fork has no token: the same plan, from a snapshot that somebody with a token took.
    expect((await reconcile(runner, ['snapshot', '--out', 'live.json'])).code).toBe(0);
    const before = world.simulator.requests().length;
    const forked = await reconcile(
      runner,
      ['--plan', '--live', 'live.json', '--base', 'origin/main', '--output', 'json', 'policy'],
      { RECONCILE_TOKEN: '' },
    );
    expect(forked.code).toBe(0);
    expect(world.simulator.requests()).toHaveLength(before);
    const changes = (text: string): unknown => (JSON.parse(text) as { changes: unknown }).changes;
    expect(changes(forked.out)).toEqual(changes(world.read('runner/plan.json')));

    // The reviewed plan is saved, merged, and applied: only that.
    expect((await reconcile(runner, ['--plan', '--save', 'saved.json', 'policy'])).code).toBe(0);
    git(mine, 'checkout', '-q', 'main');
    git(mine, 'merge', '-q', '--no-ff', 'database', '-m', 'Merge');
    git(mine, 'push', '-q', 'origin', 'main');
    git(runner, 'fetch', '-q');
    git(runner, 'checkout', '-q', 'origin/main');
    const applied = await reconcile(runner, ['apply', 'saved.json', 'policy']);
    expect([applied.code, applied.out]).toEqual([0, expect.stringContaining('a fresh read of the server agrees')]);
    expect(
      world.simulator
        .rules()
        .map(({ destination }) => destination)
        .sort(),
    ).toEqual(['10.0.0.0/8', '10.1.0.0/16', '10.2.0.5', '169.254.0.0/16']);

    // The same saved plan a second time is stale.
    expect((await reconcile(runner, ['apply', 'saved.json', 'policy'])).code).toBe(3);

    // Drift: found with its direction, then healed.
    expect((await reconcile(runner, ['drift', 'policy'])).code).toBe(0);
    const intruder = world.simulator.seed([{ action: 'accept', destination: '198.51.100.0/24' }]);
    const drift = await reconcile(runner, ['drift', '--base', 'origin/main', 'policy']);
    expect([drift.code, drift.out]).toEqual([2, expect.stringMatching(/only on the server .*198\.51\.100\.0\/24/)]);
    expect(intruder).toHaveLength(1);
    expect((await reconcile(runner, ['policy'])).code).toBe(0);
    expect((await reconcile(runner, ['drift', 'policy'])).code).toBe(0);
    expect(existsSync(join(runner, 'saved.json'))).toBe(true);
  });
});

describe('the process', () => {
  beforeEach(() => {
    world.write('m/rules.yaml', policy);
  });

  it('Ctrl-C while applying: requests in flight end, nothing new starts, the report is exact, exit 5', async () => {
    const many = Array.from(
      { length: 300 },
      (_, i) => `    - {name: r${i}, action: drop, destination: 172.16.${i >> 8}.${i & 255}}\n`,
    ).join('');
    world.write('m/rules.yaml', policy + many);
    world.simulator.faults.inject({ match: { method: 'POST' }, fault: { kind: 'delay', milliseconds: 20 } });
    const child = spawnReconcile(['--output', 'json', '--concurrency', '2', 'm'], {
      cwd: world.folder,
      env: { RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token, RECONCILE_YES: 'true' },
    });
    const unsubscribe = world.simulator.onCall(() => {
      if (world.simulator.rules().length === 20) child.kill('SIGINT');
    });
    const run = await ended(child);
    unsubscribe();
    expect(run.code).toBe(5);
    const outcomes = (JSON.parse(run.out) as { outcomes: { outcome: string }[] }).outcomes;
    expect(outcomes).toHaveLength(303);
    expect(outcomes.filter(({ outcome }) => outcome === 'done')).toHaveLength(world.simulator.rules().length);
    expect(outcomes.every(({ outcome }) => outcome === 'done' || outcome === 'dropped')).toBe(true);
    expect(world.simulator.rules().length).toBeLessThan(40);
  });

  it('a reader that goes away ends nothing: the apply is finished (long)', async () => {
    const child = spawnReconcile(['m'], {
      cwd: world.folder,
      env: { RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token, RECONCILE_YES: 'true' },
    });
    child.stdout?.destroy();
    child.stderr?.destroy();
    await new Promise((resolve) => child.once('close', resolve));
    expect(world.simulator.rules()).toHaveLength(3);
  });

  it('--version needs nothing else', async () => {
    const run = await ended(spawnReconcile(['--version'], { cwd: world.folder, env: {} }));
    expect([run.code, run.out, run.err]).toEqual([0, expect.stringMatching(/^\d+\.\d+\.\d+\n$/), '']);
  });

  it('threat 13: the token is in no argument and in no file that the command writes (long)', async () => {
    const file = world.write('token', token);
    const run = await reconcile(
      world.folder,
      ['--token-file', file, '--journal', 'journal.jsonl', '--save', 'plan.json', '--plan', 'm'],
      { RECONCILE_TOKEN: '' },
    );
    const applied = await reconcile(
      world.folder,
      ['--token-file', file, '--journal', 'journal.jsonl', '--verbose', 'm'],
      { RECONCILE_TOKEN: '' },
    );
    expect([run.code, applied.code]).toEqual([0, 0]);
    for (const text of [
      run.out,
      run.err,
      applied.out,
      applied.err,
      world.read('journal.jsonl'),
      world.read('plan.json'),
    ])
      expect(text).not.toContain(token);
  });
});
