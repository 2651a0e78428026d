import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Sidecar, World } from '../controller/support/sidecar.ts';
import { binary, ensureBuilt, inEffect, makeWorld, rules, startSidecar, until } from '../controller/support/sidecar.ts';

let world: World;
let running: Sidecar[];

beforeAll(ensureBuilt);

beforeEach(async () => {
  world = await makeWorld();
  running = [];
});

afterEach(async () => {
  for (const one of running) one.child.kill('SIGKILL');
  await Promise.all(running.map((one) => one.ended()));
  await world.close();
});

const write = (text: string): void => writeFileSync(path.join(world.manifests, 'a.yaml'), text);
const quick = ['--quiet', '20ms', '--delete-quiet', '20ms', '--rescan', '1s', '--interval', '60s'];

async function start(args: readonly string[] = [], env: Record<string, string> = {}): Promise<Sidecar> {
  const sidecar = await startSidecar(world, [world.manifests, ...quick, '--state-dir', world.state, ...args], env);
  running.push(sidecar);
  return sidecar;
}

const dropRule = (name: string, destination: string): string =>
  `apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: ${name}}\nspec: {action: drop, destination: ${destination}}\n`;

describe('faults of the process', () => {
  it('fault 35: on SIGTERM the request in flight ends, no new one starts, and the exit is orderly', async () => {
    write(rules(...Array.from({ length: 40 }, (_, index) => `10.0.0.${index}`)));
    world.sim.faults.inject({ match: { method: 'POST' }, fault: { kind: 'delay', milliseconds: 150 } });
    const sidecar = await start(['--concurrency', '2']);
    await until(() => world.live().length >= 4);
    const code = await sidecar.stop();
    const written = world.live().length;
    expect(code).toBe(0);
    expect(written).toBeLessThan(20);
    expect(world.sim.requests().filter((call) => call.method === 'POST').length).toBe(written);
    world.sim.faults.clear();
    await (await start()).until(inEffect());
    expect(world.live().length).toBe(40);
  });

  it('fault 35: a gap that is open when SIGTERM comes is closed before the end', async () => {
    world.sim.seed([{ action: 'drop', destination: '192.0.2.2' }]);
    write(dropRule('wide', '192.0.2.0/24'));
    world.sim.faults.inject({ match: { method: 'POST' }, fault: { kind: 'delay', milliseconds: 300 } });
    let sidecar: Sidecar | null = null;
    world.sim.onCall((call) => {
      if (call.method === 'DELETE') sidecar?.child.kill('SIGTERM');
    });
    sidecar = await start();
    expect(await sidecar.ended()).toBe(0);
    expect(world.live()).toEqual(['192.0.2.0/24']);
  });

  it('fault 36: after SIGKILL at every step boundary the next process converges, gaps first (long)', async () => {
    const before = ['192.0.2.2', '198.51.100.7', '203.0.113.9'];
    const wide = ['192.0.2.0/24', '198.51.100.0/24', '203.0.113.0/24'];
    const plain = ['10.0.0.1', '10.0.0.2'];
    write([...wide.map((network, index) => dropRule(`wide-${index}`, network)), rules(...plain)].join('---\n'));
    for (let boundary = 1; boundary <= 8; boundary++) {
      for (const id of world.sim.rules().map((rule) => rule.id)) {
        await fetch(`${world.sim.url}/v0/rules/${id}`, {
          method: 'DELETE',
          headers: { authorization: 'Bearer canary-api-token', accept: 'application/json' },
        });
      }
      world.sim.seed(before.map((destination) => ({ action: 'drop' as const, destination })));
      let writes = 0;
      let first: Sidecar | null = null;
      const off = world.sim.onCall((call) => {
        if (call.method === 'GET') return;
        writes += 1;
        if (writes === boundary) first?.child.kill('SIGKILL');
      });
      first = await start(['--concurrency', '1']);
      const end = await first.ended();
      off();
      expect([boundary, end]).toEqual([boundary, 'SIGKILL']);
      const second = await start();
      await second.until(inEffect());
      expect([boundary, world.live()]).toEqual([boundary, [...wide, ...plain].sort()]);
      await second.stop();
    }
  }, 120_000);

  it('fault 37: of two replicas one writes; when it ends the other goes on (long)', async () => {
    write(rules('10.0.0.1'));
    const lease = ['--lease', `file:${path.join(world.folder, 'lock')}`, '--lease-duration', '12s'];
    const first = await start(lease);
    await first.until(inEffect());
    const second = await start([...lease, '--state-dir', `${world.state}-2`]);
    await second.until((status) => status.role === 'standby' && status.holder !== null);
    expect((await fetch(`${second.url}/readyz`)).status).toBe(200);
    write(rules('10.0.0.1', '10.0.0.2'));
    await until(() => world.live().length === 2);
    expect((await second.status()).passes).toEqual([]);
    expect(await first.stop()).toBe(0);
    await second.until((status) => status.role === 'writer');
    write(rules('10.0.0.1', '10.0.0.2', '10.0.0.3'));
    await until(() => world.live().length === 3);
    const posts = world.sim.requests().filter((call) => call.method === 'POST');
    expect(posts.length).toBe(3);
  });

  it('fault 37: a replica that was paused past its lease writes nothing when it wakes (long)', async () => {
    write(rules('10.0.0.1'));
    const lease = ['--lease', `file:${path.join(world.folder, 'lock')}`, '--lease-duration', '10s'];
    const first = await start(lease);
    await first.until(inEffect());
    const second = await start([...lease, '--state-dir', `${world.state}-2`]);
    await second.until((status) => status.role === 'standby');
    first.child.kill('SIGSTOP');
    await second.until((status) => status.role === 'writer');
    write(rules('10.0.0.1', '10.0.0.2'));
    await until(() => world.live().length === 2);
    const calls = world.sim.requests().length;
    first.child.kill('SIGCONT');
    await first.until((status) => status.role === 'standby');
    expect(
      world.sim
        .requests()
        .slice(calls)
        .filter((call) => call.method !== 'GET'),
    ).toEqual([]);
    expect((await second.status()).role).toBe('writer');
  }, 120_000);

  it('fault 39: lost or corrupt state is made anew, and nothing is deleted because of it (long)', async () => {
    write(rules('10.0.0.1', '10.0.0.2'));
    const first = await start();
    await first.until(inEffect());
    await first.stop();
    for (const damage of ['', '{"format_version":1', '\u0000\u0000', '[]']) {
      writeFileSync(path.join(world.state, 'reconcile/record.json'), damage);
      writeFileSync(path.join(world.state, 'reconcile/journal.jsonl'), damage);
      const again = await start();
      await again.until(inEffect());
      await again.stop();
    }
    expect(world.sim.requests().filter((call) => call.method === 'DELETE')).toEqual([]);
    expect(world.live()).toEqual(['10.0.0.1', '10.0.0.2']);
  });

  it('fault 40: a log pipe that closes ends nothing (long)', async () => {
    write(rules('10.0.0.1'));
    const sidecar = await start();
    await sidecar.until(inEffect());
    sidecar.child.stderr?.destroy();
    sidecar.child.stdout?.destroy();
    write(rules('10.0.0.1', '10.0.0.2'));
    await until(() => world.live().length === 2);
    await sidecar.until(inEffect());
    expect(await sidecar.stop()).toBe(0);
  });

  it('fault 42: an unhandled rejection ends the process with a code and without its text', async () => {
    write(rules('10.0.0.1'));
    const hook = path.join(world.folder, 'hook.mjs');
    writeFileSync(hook, "process.on('SIGUSR2', () => void Promise.reject(new Error('canary-rejection')));");
    const sidecar = await start([], { NODE_OPTIONS: `--import ${hook}` });
    await sidecar.until(inEffect());
    sidecar.child.kill('SIGUSR2');
    expect(await sidecar.ended()).toBe(1);
    expect(sidecar.output()).not.toContain('canary');
    expect(sidecar.output()).toContain('failed in a way it should not');
  });

  it('fault 2: a server that asks to be left alone is left alone, and then served (long)', async () => {
    write(rules('10.0.0.1'));
    world.sim.faults.inject({
      match: { method: 'GET', times: 2 },
      fault: { kind: 'status', status: 503, headers: { 'retry-after': '1' } },
    });
    const sidecar = await start();
    await sidecar.until(inEffect());
    expect(readFileSync(path.join(world.state, 'reconcile/record.json'), 'utf8')).toContain('appliedRevision');
  });

  it('fault 43: a thread that reads manifests and dies is no fault of the manifests: exit 1, and a sidecar tries again (long)', async () => {
    write(`${rules('10.0.0.1')}${'# a long comment\n'.repeat(70_000)}`);
    const [hook, healed] = [path.join(world.folder, 'hook.mjs'), path.join(world.folder, 'healed')];
    writeFileSync(
      hook,
      `import { existsSync } from 'node:fs';
       import { syncBuiltinESMExports } from 'node:module';
       import threads from 'node:worker_threads';
       const { Worker } = threads;
       threads.Worker = class extends Worker {
         constructor(url, options) {
           if (existsSync(${JSON.stringify(healed)})) super(url, options);
           else super('process.exit(7)', { ...options, eval: true });
         }
       };
       syncBuiltinESMExports();`,
    );
    const env = { NODE_OPTIONS: `--import ${hook}`, PATH: process.env['PATH'] ?? '', HOME: world.folder };
    const connection = ['--base-url', world.sim.url, '--token-file', world.tokenFile];
    for (const argv of [['validate'], ['build'], ['plan', ...connection], ['apply', '--yes', ...connection]]) {
      const run = spawnSync(process.execPath, [binary, ...argv, world.manifests], { env, encoding: 'utf8' });
      expect([argv[0], run.status, run.stderr]).toEqual([argv[0], 1, expect.stringContaining('error [reader-died]')]);
    }
    const sidecar = await start([], { NODE_OPTIONS: env.NODE_OPTIONS });
    const failed = await sidecar.until((status) => status.conditions.Ready.reason === 'SourceFailed');
    expect(failed.conditions).toMatchObject({ Stalled: { status: 'False' }, Reconciling: { status: 'True' } });
    writeFileSync(healed, '');
    await sidecar.until(inEffect());
    expect(world.live()).toEqual(['10.0.0.1']);
  });

  it('fault 30: too few files to open is a sentence, from the first module of the program on (long)', () => {
    write(rules('10.0.0.1'));
    const limited = (files: number, ...argv: readonly string[]) =>
      spawnSync('sh', ['-c', `ulimit -n ${files} && exec "$@"`, 'sh', process.execPath, ...argv], { encoding: 'utf8' });
    const empty = path.join(world.folder, 'empty.cjs');
    writeFileSync(empty, 'require("node:fs");');
    let said = 0;
    for (let files = 16; files <= 32; files++) {
      if (limited(files, empty).status !== 0) continue; // Node itself cannot start
      const run = limited(files, binary, 'validate', world.manifests);
      if (run.status === 0) continue; // these were enough
      expect([run.status, run.stderr]).toEqual([
        1,
        expect.stringMatching(/^error \[open-files\] [^\n]*\n {4}hint: [^\n]*\n$/),
      ]);
      said++;
    }
    expect(said).toBeGreaterThan(0);
  });
});
