import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { ended, entry, rule, spawnReconcile, startWorld, token, type World } from '../cli/harness.ts';
import { settingsOf } from './command-line.ts';

/** The files as 0.1 shipped them: what people have installed must go on working with this build. */
const shipped = (name: string): string => readFileSync(new URL(`./shipped-0.1/${name}`, import.meta.url), 'utf8');
const page = readFileSync(new URL('../../docs/start/upgrade-0.2.md', import.meta.url), 'utf8').replace(/\s+/g, ' ');

const compose = (name: string): readonly string[] => parse(shipped(name)).services.reconcile.command as string[];
const kubernetes = (name: string): readonly string[] =>
  parseAllDocuments(shipped(name))
    .map((document) => document.toJS())
    .flatMap((manifest) => manifest.spec.template.spec.containers[0].args as string[]);
const systemd = (/^ExecStart=\S+ (.*)$/m.exec(shipped('firezone-reconcile.service'))?.[1] ?? '').split(' ');

const lines: readonly (readonly [string, readonly string[]])[] = [
  ['compose beside the API', compose('compose-sidecar.yaml')],
  ['compose alone', compose('alone.yaml')],
  ['compose with enforcement', compose('enforcement.yaml')],
  ['the systemd unit', systemd],
  ['Kubernetes', kubernetes('deployment.yaml')],
  ['Kubernetes with enforcement', kubernetes('enforcement-sidecar.yaml')],
];

let world: World;
let env: Readonly<Record<string, string>>;
beforeEach(async () => {
  world = await startWorld();
  world.write('m/a.yaml', rule('a', 'action: drop, destination: 10.0.0.0/8'));
  world.write('token', `${token}\n`);
  env = { RECONCILE_BASE_URL: world.simulator.url };
});
afterEach(() => world.close());

describe('the files that 0.1 shipped', () => {
  it.each(lines)('%s: every flag is taken', (_, argv) => {
    expect(argv.length).toBeGreaterThan(4);
    expect(settingsOf(argv.map((word) => word.replace(/\$\{[^}]*\}/, 'x'))).command).toBe('watch');
  });

  /** The command line with this world's files in place of the host's; `--once`, so that it ends. */
  const here = (argv: readonly string[]): readonly string[] => [
    ...argv
      .map((word) => (word === '/manifests' ? join(world.folder, 'm') : word))
      .map((word) => word.replace('http://127.0.0.1:13000', world.simulator.url))
      .map((word) => word.replace(/\/run\/secrets\/firezone-token|%d\/token/, join(world.folder, 'token')))
      .map((word) => word.replace(/\/var\/lib\/reconcile|%S\/firezone-reconcile/, join(world.folder, 'state')))
      .map((word) => word.replace('/etc/firezone-reconcile/settings.yaml', join(world.folder, 'settings.yaml')))
      .map((word) => word.replace('127.0.0.1:8080', '127.0.0.1:0')),
    '--once',
  ];

  it.each([
    ['compose beside the API', ' (long)', compose('compose-sidecar.yaml')],
    ['the systemd unit', '', [...systemd, '/manifests']],
  ])('%s: runs, applies without a terminal and without --yes, and ends with 0%s', async (_, _long, argv) => {
    writeFileSync(join(world.folder, 'settings.yaml'), `baseUrl: ${world.simulator.url}\n`);
    const run = await ended(spawnReconcile(here(argv), { cwd: world.folder, env: {} }));
    expect([run.code, run.err]).toEqual([0, expect.stringContaining('Watching')]);
    expect(world.simulator.rules()).toHaveLength(1);
  });

  it('the settings of Kubernetes are read', async () => {
    const [settings] = parseAllDocuments(shipped('settings.yaml')).map((document) => document.toJS());
    world.write('settings.yaml', settings.data['settings.yaml'] as string);
    expect((await world.cli(['validate', '--config', 'settings.yaml', 'm'])).code).toBe(0);
  });
});

describe('command lines of 0.1', () => {
  const go = (args: readonly string[]) =>
    ended(spawnReconcile(args, { cwd: world.folder, env: { ...env, RECONCILE_TOKEN: token } }));

  it('the Action: plans a pull request, from a snapshot too, and applies a push (long)', async () => {
    const tail = ['--no-color', '--output', 'github', 'm'];
    const server = ['--base-url', world.simulator.url];
    expect((await go(['--plan', '--detailed-exitcode', ...server, ...tail])).code).toBe(2);
    expect((await go(['snapshot', '--out', 'live.json'])).code).toBe(0);
    expect((await go(['--plan', '--detailed-exitcode', '--live', 'live.json', ...tail])).code).toBe(2);
    expect((await go(['--yes', ...server, ...tail])).code).toBe(0);
    expect(world.simulator.rules()).toHaveLength(1);
  });

  describe.each([
    ['github.mjs', { GITHUB_REPOSITORY: 'a/b', INPUT_PATH: 'm', INPUT_TOKEN: token, INPUT_COMMENT: 'false' }],
    ['gitlab.mjs', { RECONCILE_PATH: 'm', RECONCILE_TOKEN: token }],
  ] as const)('the script of 0.1 that people copied: ci/%s', (script, variables) => {
    /** As they stand in a copy of the repository: the scripts of 0.1 below ci/, this build in dist/. */
    const run = (more: Readonly<Record<string, string>>) => {
      for (const name of [script, 'plan-run.mjs']) world.write(`copy/ci/${name}`, shipped(name));
      if (!existsSync(join(world.folder, 'copy/dist'))) symlinkSync(dirname(entry), join(world.folder, 'copy/dist'));
      const urls = { INPUT_BASE_URL: world.simulator.url, RECONCILE_BASE_URL: world.simulator.url };
      const path = process.env['PATH'] ?? '';
      const child = spawn(process.execPath, [join(world.folder, 'copy/ci', script)], {
        cwd: world.folder,
        env: { PATH: path, HOME: world.folder, ...urls, ...variables, ...more },
      });
      return ended(child);
    };
    const event = (review: object): Readonly<Record<string, string>> => ({
      GITHUB_EVENT_PATH: world.write('event.json', JSON.stringify(review)),
      GITHUB_OUTPUT: world.write('output', ''),
    });

    it('plans a review and writes nothing', async () => {
      const head = { head: { repo: { full_name: 'a/b' } }, number: 1 };
      const run1 = await run({ ...event({ pull_request: head }), CI_MERGE_REQUEST_IID: '1' });
      expect([run1.code, run1.out]).toEqual([0, expect.stringContaining('1 to create')]);
      expect(world.simulator.rules()).toEqual([]);
      if (script === 'github.mjs') expect(world.read('output')).toMatch(/^exitcode=2$[\s\S]*^digest=[0-9a-f]{32}$/m);
      else expect(world.read('plan.json')).toContain('"digest"');
    });

    it('applies a push', async () => {
      const run1 = await run({ ...event({}), CI_COMMIT_BRANCH: 'main' });
      expect([run1.code, run1.err]).toEqual([0, '']);
      expect(world.simulator.rules()).toHaveLength(1);
    });

    it('plans from a snapshot where the token is not (long)', async () => {
      await go(['snapshot', '--out', 'live.json']);
      const stranger = { head: { repo: { full_name: 'c/d' } }, number: 1 };
      const before = world.simulator.requests().length;
      const run1 = await run({
        ...event({ pull_request: stranger }),
        ...{ CI_MERGE_REQUEST_IID: '1', RECONCILE_TOKEN: '' },
        ...{ INPUT_SNAPSHOT: 'live.json', RECONCILE_SNAPSHOT: 'live.json' },
      });
      expect([run1.code, run1.out]).toEqual([0, expect.stringContaining('snapshot')]);
      expect(world.simulator.requests()).toHaveLength(before);
    });
  });

  it('RECONCILE_LIVE still names a snapshot', async () => {
    await go(['snapshot', '--out', 'live.json']);
    const run = await world.cli(['--plan', 'm'], { env: { RECONCILE_LIVE: 'live.json', RECONCILE_BASE_URL: '' } });
    expect([run.code, run.out]).toEqual([0, expect.stringContaining('snapshot')]);
  });

  it('a cron line without --yes writes nothing, and the page has its message and its cure (long)', async () => {
    const run = await go(['m']);
    const message = 'There is no terminal to ask on; give --yes to apply';
    expect([run.code, run.err]).toEqual([1, expect.stringContaining(message)]);
    expect(page).toContain(message);
    expect(page).toContain('add `--yes`');
    expect(world.simulator.rules()).toEqual([]);
    expect((await go(['--yes', 'm'])).code).toBe(0);
  });

  it.each([
    [['--suspend', '--yes', 'm'], 3, 'Writing is suspended by'],
    [['--interval', '5s', '--yes', 'm'], 1, '--interval goes with `reconcile watch`'],
  ])('%j ends with %d, and the page has the message', async (args, code, message) => {
    const run = await world.cli(args, { env });
    expect([run.code, run.err]).toEqual([code, expect.stringContaining(message)]);
    expect(page).toContain(message);
    expect(world.simulator.rules()).toEqual([]);
  });

  it('a state directory of 0.1 is taken over (long)', async () => {
    mkdirSync(join(world.folder, 'state'));
    const once = ['--watch', '--once', '--state-dir', 'state', 'm'];
    expect((await go(once)).code).toBe(0);
    expect((await go(once)).code).toBe(0);
  });
});
