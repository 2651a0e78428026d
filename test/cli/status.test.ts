import type { ChildProcess } from 'node:child_process';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ended, rule, spawnReconcile, startWorld, token, type World } from './harness.ts';

let world: World;
const children: ChildProcess[] = [];
beforeEach(async () => {
  world = await startWorld();
  world.write('m/a.yaml', rule('a', 'action: drop, destination: 10.0.0.0/8'));
  world.write('web-token', 'token-of-the-pages\n');
});
afterEach(async () => {
  for (const child of children.splice(0)) {
    const end = ended(child);
    child.kill('SIGTERM');
    await end;
  }
  await world.close();
});

/** A sidecar of the built command; resolves with the address of its pages once a pass was judged. */
async function startSidecar(...flags: readonly string[]): Promise<string> {
  const env = { RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token };
  const args = ['watch', 'm', '--listen', '127.0.0.1:0', '--log-format', 'json', ...flags];
  const child = spawnReconcile(args, { cwd: world.folder, env });
  children.push(child);
  return new Promise((resolve) => {
    let text = '';
    child.stderr?.setEncoding('utf8').on('data', (part: string) => {
      text += part;
      const address = /"address":"([^"]+)"/.exec(text)?.[1];
      if (address !== undefined && text.includes('The pass ended')) resolve(address);
    });
  });
}

/** A server that answers every path with this. */
async function serve(code: number, body: unknown, use: (url: string) => Promise<void>): Promise<void> {
  const server = createServer((_, response) => response.writeHead(code).end(JSON.stringify(body)));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  await new Promise((resolve) => server.close(resolve));
}

const conditions = (ready: string, reconciling = 'False', reason = 'Idle') => ({
  conditions: {
    Ready: { type: 'Ready', status: ready, reason: 'Refused', message: 'm\u001b[31m' },
    Reconciling: { type: 'Reconciling', status: reconciling, reason, message: '' },
  },
});

describe('reconcile status', () => {
  it('threat 22: moves no terminal and ends in order, whatever stands in place of a word', async () => {
    const odd = { toString: 1, valueOf: 1 };
    const body = {
      headline: { text: odd, advice: odd, command: '\u001b]0;x\u0007' },
      conditions: { Ready: { type: '\u001b[31mReady', status: '\u001b[31mTrue' }, Other: { type: odd, status: odd } },
      server: odd,
      version: '\u001b[2J',
    };
    await serve(200, body, async (url) => {
      const said = await world.cli(['status', url]);
      expect(said.err + said.out).not.toContain('\u001b');
      expect([said.code, said.out]).toEqual([1, expect.stringContaining('[31mReady')]);
    });
    await serve(200, conditions('True'), async (url) =>
      expect((await world.cli(['status', url])).out).toMatch(/^Ready +True/),
    );
  });

  it('of a sidecar that is ready: exit 0, with its server and revision, as text and as JSON', async () => {
    const url = await startSidecar();
    const said = await world.cli(['status', url]);
    expect([said.code, said.out]).toEqual([0, expect.stringMatching(/^In sync\nReady +True +Applied/)]);
    expect(said.out).toContain(`server       ${world.simulator.url}`);
    world.write('s.yaml', 'verbose: true\n');
    const flags = ['--config', 's.yaml', '--log-format', 'json', '--verbose', '--no-color', '--output', 'json'];
    const json = JSON.parse((await world.cli(['status', ...flags, url])).out) as Record<string, unknown>;
    expect(json).toMatchObject({ server: world.simulator.url, liveRules: 1 });
  });

  it('of one that is suspended with something to write: exit 1', async () => {
    const url = await startSidecar('--suspend');
    expect((await world.cli(['status', url])).code).toBe(1);
  });

  it('of one that refuses the Configuration alone: says that the rules are in effect, and of which revision', async () => {
    const spec = '{local_auth_enabled: false, openid_connect_providers: []}';
    world.write('m/c.yaml', `apiVersion: firezone/v0\nkind: Configuration\nmetadata: {name: main}\nspec: ${spec}\n`);
    const url = await startSidecar();
    const said = await world.cli(['status', url]);
    expect([said.code, said.out]).toEqual([
      1,
      expect.stringMatching(/^Ready +False +Refused: the rules of \S+ are in effect/m),
    ]);
    expect(said.out).toMatch(/^in force +sha256:[0-9a-f]{12}$/m);
    expect(said.out).not.toMatch(/^applied/m);
    expect(await (await fetch(url)).text()).toMatch(/<dt>In force<\/dt><dd>.*, in effect in part</);
    expect(world.simulator.rules()).toHaveLength(1);
  });

  it('with a token: --listen-token-file', async () => {
    const url = await startSidecar('--listen-token-file', 'web-token');
    const without = await world.cli(['status', url]);
    expect([without.code, without.err]).toEqual([1, expect.stringContaining('--listen-token-file FILE')]);
    expect((await world.cli(['status', url, '--listen-token-file', 'web-token'])).code).toBe(0);
  });

  it('--probe asks /healthz alone: 0 or 1', async () => {
    const url = await startSidecar('--listen-token-file', 'web-token');
    expect(await world.cli(['status', '--probe', url])).toMatchObject({ code: 0, out: 'ok\n' });
    await serve(503, {}, async (stuck) => expect((await world.cli(['status', '--probe', stuck])).code).toBe(1));
  });

  it.each<[string, string, number, string?]>([
    ['True', 'False', 0],
    ['True', 'True', 0],
    ['Unknown', 'False', 2],
    ['False', 'True', 2],
    ['False', 'False', 1],
    ['False', 'True', 1, 'Retrying'],
  ])(
    'Ready %s and Reconciling %s: exit %d, and nothing that a terminal would obey',
    async (ready, busy, code, reason) => {
      await serve(200, conditions(ready, busy, reason), async (url) => {
        const said = await world.cli(['status', url]);
        expect(said.code).toBe(code);
        expect(said.out).not.toContain('\u001b');
      });
    },
  );

  it.each([
    ['http://127.0.0.1:9', 'does not answer'],
    ['sidecar', 'is not the address of a sidecar'],
    ['file:///etc/passwd', 'is not the address of a sidecar'],
  ])('%s: exit 1 and a sentence', async (url, words) => {
    const said = await world.cli(['status', url]);
    expect([said.code, said.err]).toEqual([1, expect.stringContaining(words)]);
  });

  it('threat 10: answers while the settings are broken, in the file and in variables', async () => {
    const url = await startSidecar();
    world.write('typo.yaml', 'maxDelete: 10%\n');
    world.write('report.yaml', 'output: [text, markdown=report.md]\n');
    const broken = [
      { RECONCILE_CONFIG: 'typo.yaml' },
      { RECONCILE_CONFIG: 'gone.yaml' },
      { RECONCILE_CONFIG: 'report.yaml' },
      { RECONCILE_OUTPUT: 'csv', RECONCILE_CONCURRENCY: 'many', RECONCILE_TOKEN_FIL: 'x' },
    ];
    for (const env of broken) {
      const probe = await world.cli(['status', '--probe', url], { env });
      expect([probe.code, probe.out], probe.err).toEqual([0, 'ok\n']);
      const said = await world.cli(['status', url], { env });
      expect([said.code, said.out], said.err).toEqual([0, expect.stringMatching(/^In sync\n/)]);
    }
  });

  it('takes the token of the page from the settings, and from the variable where the file is broken', async () => {
    const url = await startSidecar('--listen-token-file', 'web-token');
    world.write('s.yaml', 'listenTokenFile: web-token\n');
    world.write('typo.yaml', 'listenTokenFile: web-token\nmaxDelete: 10%\n');
    expect((await world.cli(['status', '--config', 's.yaml', url])).code).toBe(0);
    const refused = await world.cli(['status', '--config', 'typo.yaml', url]);
    expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('--listen-token-file FILE')]);
    const env = { RECONCILE_LISTEN_TOKEN_FILE: 'web-token' };
    expect((await world.cli(['status', '--config', 'typo.yaml', url], { env })).code).toBe(0);
  });

  it('what is no status is said', async () => {
    for (const body of [{}, [], 'hello', { conditions: 1 }, 'long'.repeat(6_000_000)])
      await serve(200, body, async (url) => {
        const said = await world.cli(['status', url]);
        expect([said.code, said.err]).toEqual([1, expect.stringContaining('not the page of a sidecar')]);
      });
  });
});
