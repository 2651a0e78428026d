import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { chooseExitCode, chooseVerdictExitCode, type RunFacts } from '../../src/cli/command.ts';
import { configuration, rule, startWorld, type World } from './harness.ts';

describe('the order of exit codes', () => {
  it.each<[string, RunFacts, number]>([
    ['nothing is wrong', {}, 0],
    ['changes are pending, and nobody asked', { pending: true }, 0],
    ['changes are pending, and the exit code is detailed', { pending: true, detailed: true }, 2],
    ['anything else failed', { failed: true, pending: true, detailed: true }, 1],
    ['something is missing, nothing was written', { missing: true }, 1],
    ['something was written and something is missing', { wrote: true, missing: true, failed: true }, 5],
    ['a guard refused, whatever was written', { refused: true, wrote: true, missing: true, failed: true }, 3],
    [
      'the manifests are invalid, before all else',
      { invalid: true, refused: true, wrote: true, missing: true, failed: true },
      4,
    ],
    ['everything was written', { wrote: true }, 0],
  ])('%s', (_, facts, code) => {
    expect(chooseExitCode(facts)).toBe(code);
  });

  it.each([
    ['good', 'Applied', 0],
    ['good', 'InSync', 0],
    ['held', 'Suspended', 2],
    ['held', 'DriftReported', 2],
    ['terminal', 'SecretMissing', 2],
    ['terminal', 'Refused', 3],
    ['terminal', 'ManifestsInvalid', 4],
    ['transient', 'ApplyFailed', 5],
    ['transient', 'NotConverging', 5],
    ['transient', 'ApiUnreachable', 1],
    ['terminal', 'Unauthorized', 1],
  ] as const)('of a watch that ends after one pass: %s %s', (kind, reason, code) => {
    expect(chooseVerdictExitCode({ kind, reason })).toBe(code);
  });
});

describe('exit codes of the command, the same in every output mode', () => {
  let world: World;
  beforeEach(async () => {
    world = await startWorld();
  });
  afterEach(() => world.close());

  const modes = [[], ['--output', 'json'], ['--output', 'markdown'], ['--output', 'github']] as const;
  const inEveryMode = async (
    args: readonly string[],
    expected: number,
    env: Readonly<Record<string, string>> = {},
  ): Promise<void> => {
    for (const mode of modes) {
      const run = await world.cli([...mode, ...args], { env });
      expect({ mode, code: run.code }).toEqual({ mode, code: expected });
      if (mode[1] === 'json') expect(run.json().format_version).toBe('1.1');
    }
  };

  it('0 when the server is in sync, 0 and 2 when changes are pending', async () => {
    world.write('m/a.yaml', rule('a', 'action: drop, destination: 10.0.0.0/8'));
    await inEveryMode(['--plan', 'm'], 0);
    await inEveryMode(['--plan', '--detailed-exitcode', 'm'], 2);
    expect((await world.cli(['m'])).code).toBe(0);
    await inEveryMode(['--plan', '--detailed-exitcode', 'm'], 0);
  });

  it('4 when the manifests are invalid, and nothing is asked of the server', async () => {
    world.write('m/a.yaml', rule('a', 'action: drop, destination: 10.0.0.300'));
    await inEveryMode(['--plan', 'm'], 4);
    await inEveryMode(['m'], 4);
    await inEveryMode(['validate', 'm'], 4);
    expect(world.simulator.requests()).toEqual([]);
  });

  it('3 when a guard refuses, with --plan as with apply', async () => {
    world.simulator.seed(
      Array.from({ length: 20 }, (_, i) => ({ action: 'drop' as const, destination: `10.0.${i}.0/24` })),
    );
    world.write('m/a.yaml', rule('a', 'action: drop, destination: 10.0.0.0/24'));
    await inEveryMode(['--plan', 'm'], 3);
    await inEveryMode(['m'], 3);
    expect(world.simulator.rules()).toHaveLength(20);
    const plan = (await world.cli(['--plan', '--output', 'json', 'm'])).json();
    expect(plan.refusals.map(({ code }) => code)).toEqual(['too-many-deletes', 'too-many-changes']);
    expect(plan.refusals[0]?.summary).toMatch(/19/);
  });

  it('5 when something was written and something is missing', async () => {
    world.write(
      'm/a.yaml',
      rule('a', 'action: drop, destination: 10.0.0.0/8') + rule('b', 'action: drop, destination: 192.0.2.0/24'),
    );
    world.simulator.faults.inject({
      match: { method: 'POST', times: 1 },
      fault: { kind: 'status', status: 403, body: '{}' },
    });
    const run = await world.cli(['--output', 'json', 'm']);
    expect(run.code).toBe(5);
    expect(
      run
        .json()
        .outcomes?.map(({ outcome }) => outcome)
        .sort(),
    ).toEqual(['done', 'failed']);
  });

  const waitsForSecret = configuration(
    'openid_connect_providers:\n  - {id: g, label: G, client_id: c, client_secret: {env: RECONCILE_SECRET_G}, discovery_document_uri: "https://idp.example/d", auto_create_users: false}\ndefault_client_mtu: 1400',
  );

  it('5, and then 1, when a known difference waits for a secret that is not available; a plan without it works', async () => {
    world.write('m/a.yaml', waitsForSecret);
    await inEveryMode(['--plan', 'm'], 0);
    await inEveryMode(['--plan', '--detailed-exitcode', 'm'], 2);
    const first = await world.cli(['m']);
    expect([first.code, first.out]).toEqual([
      5,
      expect.stringContaining('but for what was not sent for want of a secret'),
    ]);
    await inEveryMode(['m'], 1);
    const severities = async (...args: readonly string[]) =>
      (await world.cli([...args, '--output', 'json', 'm']))
        .json()
        .problems.map(({ code, severity }) => [code, severity]);
    expect(await severities('--plan')).toContainEqual(['unsent-field', 'warning']);
    expect(await severities()).toContainEqual(['unsent-field', 'error']);
    const secret = { RECONCILE_SECRET_G: 'given', RECONCILE_BIND_SECRET: 'RECONCILE_SECRET_G=g@idp.example' };
    await inEveryMode(['m'], 0, secret);
    // A secret that may or may not be the same is no known difference.
    await inEveryMode(['m'], 0);
    await inEveryMode(['--plan', '--detailed-exitcode', 'm'], 0);
  });

  it('4 with --strict for a warning about the plan, with and without --live, and nothing is written', async () => {
    world.write('m/a.yaml', waitsForSecret);
    await inEveryMode(['--strict', 'm'], 4);
    await inEveryMode(['--plan', '--strict', 'm'], 4);
    await world.cli(['snapshot', '--out', 'live.json']);
    await inEveryMode(['--plan', '--strict', '--live', 'live.json', 'm'], 4);
    expect(world.simulator.requests().filter(({ method }) => method !== 'GET')).toEqual([]);
  });

  it('1 for a wrong token, a missing base URL, a missing PATH, an unknown flag', async () => {
    world.write('m/a.yaml', rule('a', 'action: drop, destination: 10.0.0.0/8'));
    await inEveryMode(['--plan', 'm'], 1, { RECONCILE_TOKEN: 'wrong' });
    await inEveryMode(['--plan', 'm'], 1, { RECONCILE_BASE_URL: '' });
    await inEveryMode(['--plan'], 1);
    await inEveryMode(['--plan', '--no-such-flag', 'm'], 1);
  });

  it('1 when somebody at the terminal declines, and nothing is written', async () => {
    world.write('m/a.yaml', rule('a', 'action: drop, destination: 10.0.0.0/8'));
    for (const answer of ['', 'n', 'no', 'maybe']) {
      const run = await world.cli(['m'], { answer });
      expect([run.code, run.err]).toEqual([1, expect.stringContaining('Nothing was written.')]);
    }
    expect(world.simulator.rules()).toEqual([]);
    expect((await world.cli(['m'], { answer: 'y' })).code).toBe(0);
    expect(world.simulator.rules()).toHaveLength(1);
  });

  it('asks nothing with --yes, and nothing when there is no terminal', async () => {
    world.write('m/a.yaml', rule('a', 'action: drop, destination: 10.0.0.0/8'));
    const run = await world.cli(['--yes', 'm'], { answer: 'n' });
    expect(run.code).toBe(0);
    expect(run.err).not.toContain('[y/N]');
  });

  it('4 with --strict when there is a warning', async () => {
    world.write(
      'm/a.yaml',
      configuration(
        'openid_connect_providers:\n  - {id: g, label: G, client_id: c, client_secret: literal-secret, discovery_document_uri: "https://idp.example/d", auto_create_users: false}',
      ),
    );
    expect((await world.cli(['validate', 'm'])).code).toBe(0);
    expect((await world.cli(['validate', '--strict', 'm'])).code).toBe(4);
    expect((await world.cli(['--strict', 'm'])).code).toBe(4);
    expect(world.simulator.requests().filter(({ method }) => method !== 'GET')).toEqual([]);
  });
});
