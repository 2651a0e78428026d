import { readFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ended, rule, spawnReconcile, startWorld, token, type World } from './harness.ts';

let world: World;
const drop = rule('closed', 'action: drop, destination: 10.0.0.0/8');

beforeEach(async () => {
  world = await startWorld();
  world.write('m/drop.yaml', drop);
  await world.cli(['m']);
  world.write('m/web.yaml', rule('web', 'action: accept, destination: 10.1.0.0/16'));
  world.write('closed.yaml', 'yes: true\nwindows:\n  - {kind: deny, schedule: "* * * * *", duration: 1h}\n');
});

afterEach(() => world.close());

describe('windows', () => {
  it('an apply outside of a window writes nothing, ends with 3, and says what to type', async () => {
    const run = await world.cli(['--config', 'closed.yaml', 'm']);
    expect(run.code).toBe(3);
    expect(run.err).toContain('outside the window: this plan opens traffic, and no window was found for it');
    expect(run.err).toContain('Check `windows`, or apply it now with --override-window REASON.');
    expect(world.simulator.rules().length).toBe(1);
    // A script whose variable is empty gives no reason.
    expect((await world.cli(['--config', 'closed.yaml', '--override-window', ' ', 'm'])).code).toBe(3);
    expect(world.simulator.rules().length).toBe(1);
  });

  it('a plan says that it is held, and that only a sidecar waits for the window', async () => {
    const run = await world.cli(['--plan', '--config', 'closed.yaml', 'm']);
    expect(run.code).toBe(0);
    expect(run.out + run.err).toContain('outside the window');
    world.write('new-year.yaml', 'windows:\n  - {kind: deny, schedule: "0 0 1 1 *", duration: 1d}\n');
    const ahead = (at: string) => world.cli(['plan', '--at', at, '--config', 'new-year.yaml', 'm']);
    const { out } = await ahead('2099-01-01T12:00:00Z');
    expect(out).toContain(
      'outside the window: this plan opens traffic, and the next window opens at 2099-01-02T00:00:00Z',
    );
    expect(out).toContain('Only a sidecar waits: apply it then, or now with --override-window REASON.');
    expect((await ahead('2099-01-02T12:00:00Z')).out).not.toContain('outside the window');
  });

  it('a plan that opens nothing is written at any time', async () => {
    await world.cli(['m']);
    world.write('m/web.yaml', rule('web', 'action: accept, destination: 10.1.0.0/24'));
    const run = await world.cli(['--config', 'closed.yaml', 'm']);
    expect([
      run.code,
      world.simulator
        .rules()
        .map(({ destination }) => destination)
        .sort(),
    ]).toEqual([0, ['10.0.0.0/8', '10.1.0.0/24']]);
  });

  it('--override-window REASON applies, and the reason stands in the report and in the journal', async () => {
    const run = await world.cli([
      '--config',
      'closed.yaml',
      '--state-dir',
      'state',
      '--journal',
      'j.jsonl',
      '--override-window',
      'incident 7',
      'm',
    ]);
    expect([run.code, world.simulator.rules().length]).toEqual([0, 2]);
    expect(run.out + run.err).toContain('no window is open; overridden: incident 7');
    expect(readFileSync(path.join(world.folder, 'j.jsonl'), 'utf8')).toContain('"reason":"incident 7"');
    const history = await world.cli(['history', '--state-dir', 'state']);
    expect(history.out).toContain('(--override-window incident 7)');
  });

  it.each([['apply', 'm'], ['apply', '--dry-run', 'm'], ['undo']])(
    '%s with --override-window where the settings have no windows writes nothing: the settings are missing',
    async (...words) => {
      world.write('none.yaml', 'windows: []\n');
      for (const config of [[], ['--config', 'none.yaml']]) {
        const before = world.simulator.rules();
        const run = await world.cli([...words, '--yes', ...config, '--override-window', 'incident 7']);
        expect([run.code, run.out, world.simulator.rules()]).toEqual([1, '', before]);
        expect(run.err).toContain('there are no `windows` to override');
        expect(run.err).toContain('--config FILE');
      }
    },
  );

  it('the journal names for each write the rule, its content, its place, the revision and the plan', async () => {
    const run = await world.cli(['--config', 'closed.yaml', '--journal', 'j.jsonl', '--override-window', 'x', 'm']);
    expect(run.code).toBe(0);
    const journal = readFileSync(path.join(world.folder, 'j.jsonl'), 'utf8').trim().split('\n');
    const writes = journal
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .filter(({ method }) => method === 'POST');
    expect(writes.length).toBeGreaterThan(0);
    for (const write of writes) {
      expect(write).toMatchObject({
        at: expect.stringMatching(/^\d{4}-/),
        rule: expect.stringContaining('10.1.0.0/'),
        name: expect.stringMatching(/./),
        place: expect.stringMatching(/^[\w.]+\.yaml:\d+$/),
        revision: expect.stringMatching(/^sha256:/),
        plan: expect.stringMatching(/^[0-9a-f]{32}$/),
      });
    }
  });

  it('--watch --once ends with 3, and its status and metric name the reason', async () => {
    const env = { RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token };
    const child = spawnReconcile(['--watch', '--once', '--config', 'closed.yaml', 'm'], { cwd: world.folder, env });
    expect((await ended(child)).code).toBe(3);
    expect(world.simulator.rules().length).toBe(1);
  });

  it.each([
    [
      'kind: deny, schedule: "61 * * * *", duration: 1h',
      '`windows.0.schedule`: "61 * * * *" is not a schedule of cron',
    ],
    ['kind: deny, schedule: "0 0 31 2 *", duration: 1h', 'names a day that no month has'],
    ['kind: deny, schedule: "0 0 * * *", duration: 5s', '`windows.0.duration`: write a time from 1m to 31d'],
    ['kind: deny, schedule: "0 0 * * *", duration: 1h, timezone: Europe/Berlun', 'is not a time zone'],
    ['kind: shut, schedule: "0 0 * * *", duration: 1h', '`windows.0.kind` must be one of allow, deny'],
    ['kind: deny, schedule: "0 0 * * *", duration: 1h, scope: [everything]', 'must be one of rules, configuration'],
  ])('%s is refused at its place', async (text, words) => {
    world.write('bad.yaml', `windows:\n  - {${text}}\n`);
    const run = await world.cli(['--plan', '--config', 'bad.yaml', 'm']);
    expect(run.code).toBe(1);
    expect(run.err).toContain(words);
    expect(run.err).toMatch(/bad\.yaml:2:\d+/);
  });
});
