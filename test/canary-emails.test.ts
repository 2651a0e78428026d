import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startReceiver } from './adapters/notify/receiver.ts';
import { alice, ended, rule, spawnReconcile, startWorld, token, type World } from './cli/harness.ts';
import { ensureBuilt, makeWorld, startSidecar } from './controller/support/sidecar.ts';

/** The address that the server knows of a user whom no manifest names. */
const mark = 'canary.person@example.com';
const forms = [
  mark,
  mark.toUpperCase(),
  encodeURIComponent(mark),
  mark.replace('@', '\\u0040'),
  Buffer.from(mark).toString('base64'),
];
const users = [{ name: 'canary', id: alice, email: mark }];
const theirs = { action: 'accept', destination: '192.0.2.7', user_id: alice } as const;

function expectNone(where: string, ...texts: readonly string[]): void {
  for (const text of texts) for (const form of forms) expect(text.includes(form), `${where} shows ${form}`).toBe(false);
}

/** All that was written below a folder. */
const filesIn = (folder: string): readonly string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((file) => path.join(folder, file))
    .filter((file) => statSync(file).isFile())
    .map((file) => readFileSync(file, 'utf8'));

describe('docs/explanation/privacy.md: an address that only the server knows', () => {
  let world: World;
  beforeEach(async () => {
    world = await startWorld({ users });
    world.simulator.seed([theirs, { action: 'drop', destination: '198.51.100.0/24', user_id: alice }]);
    world.write('m/a.yaml', rule('a', `action: drop, destination: 10.0.0.0/8, user_id: ${alice}`));
  });
  afterEach(() => world.close());

  const env = {
    RECONCILE_TOKEN: token,
    RECONCILE_YES: 'true',
    RECONCILE_MAX_DELETES: '100%',
    RECONCILE_STATE_DIR: 'state',
  };
  const run = async (args: readonly string[]) => {
    const spawned = spawnReconcile(args, {
      cwd: world.folder,
      env: { ...env, RECONCILE_BASE_URL: world.simulator.url },
    });
    return await ended(spawned);
  };
  const everywhere = ['markdown=plan.md', 'json=plan.json', 'html=plan.html', 'github', 'text'].flatMap((to) => [
    '--output',
    to,
  ]);

  it('is in no output of a run without a terminal, and in no file of it (long)', async () => {
    const lines: readonly (readonly [readonly string[], number])[] = [
      [['plan', 'm', ...everywhere, '--save', 'saved.json', '--verbose'], 0],
      [['snapshot', '--out', 'live.json'], 0],
      [['plan', '--snapshot', 'live.json', 'm', ...everywhere], 0],
      [['drift', 'm', '--output', 'json'], 2],
      [['doctor', '--output', 'json'], 0],
      [
        ['explain', '--live', 'm', '--destination', '192.0.2.7', '--protocol', 'tcp', '--port', '1', '--user', alice],
        0,
      ],
      [['reach', '--live', 'm', '--output', 'csv'], 0],
      [
        ['apply', 'saved.json', 'm', '--journal', 'journal.jsonl', ...everywhere, '--verbose', '--log-format', 'json'],
        0,
      ],
      [['history'], 0],
      [['undo', '--dry-run'], 0],
    ];
    for (const [args, code] of lines) {
      const { code: ended, out, err } = await run(args);
      expect([args.join(' '), ended, err]).toEqual([args.join(' '), code, expect.any(String)]);
      expectNone(args.join(' '), out, err, ...filesIn(world.folder));
    }
  });

  it('is there with --show-emails, and in an export: the canary sings', async () => {
    expect((await run(['plan', 'm', '--show-emails'])).out).toContain(mark);
    expect((await run(['export'])).out).toContain(mark);
  });
});

describe('a sidecar', () => {
  it('shows it in no page, status, metric, log line or notification, and keeps it in no file', async () => {
    ensureBuilt();
    const world = await makeWorld({ users });
    const bodies: string[] = [];
    const receiver = await startReceiver((_request, body, response) => {
      bodies.push(body);
      response.writeHead(200).end();
    });
    world.sim.seed([theirs]);
    writeFileSync(
      path.join(world.manifests, 'a.yaml'),
      rule('a', `action: drop, destination: 10.0.0.0/8, user_id: ${alice}`),
    );
    const config = path.join(world.folder, 'settings.yaml');
    writeFileSync(config, `notify: [{type: generic, url: "${receiver.url}"}, {type: slack, url: "${receiver.url}"}]\n`);
    const flags = [
      '--config',
      config,
      '--state-dir',
      world.state,
      '--max-deletes',
      '100%',
      '--delete-quiet',
      '1ms',
      '--verbose',
    ];
    const sidecar = await startSidecar(world, [world.manifests, ...flags]);
    try {
      await sidecar.until(({ conditions }) => conditions.Ready.status === 'True');
      writeFileSync(path.join(world.manifests, 'a.yaml'), 'kind: [');
      await sidecar.until(({ conditions }) => conditions.Ready.status === 'False');
      await expect.poll(() => bodies.length, { timeout: 30_000 }).toBeGreaterThan(3);
      const [status, page, metrics] = await Promise.all([
        sidecar.status().then((one) => JSON.stringify(one)),
        fetch(sidecar.url).then((answer) => answer.text()),
        sidecar.metrics(),
      ]);
      expect(world.sim.requests().filter(({ method }) => method === 'DELETE')).toHaveLength(1);
      expectNone('the sidecar', status, page, metrics, sidecar.output(), ...bodies, ...filesIn(world.state));
    } finally {
      await sidecar.stop();
      await receiver.close();
      await world.close();
    }
  });
});
