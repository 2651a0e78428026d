import { execFile } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Simulator, startSimulator } from '../../../src/simulator/server.ts';
import { makeUpstream, serveGit } from '../../controller/support/git-host.ts';
import { apiToken, ensureBuilt, rules, type Sidecar, spawnSidecar, until } from '../../controller/support/sidecar.ts';
import { runIn } from '../harness.ts';

let folder: string;
let servers: readonly Simulator[];
let sidecars: Sidecar[];

beforeAll(ensureBuilt);
beforeEach(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'fleet-'));
  servers = await Promise.all([0, 1, 2].map(() => startSimulator({ token: apiToken })));
  sidecars = [];
  mkdirSync(path.join(folder, 'policy'));
  write('token', `${apiToken}\n`);
  write('policy/all.yaml', rules('10.0.0.1'));
});
afterEach(async () => {
  await Promise.all(sidecars.map((one) => one.stop()));
  await Promise.all(servers.map((one) => one.close()));
  rmSync(folder, { recursive: true, force: true });
});

function write(name: string, text: string): void {
  writeFileSync(path.join(folder, name), text, { mode: 0o600 });
}

const targetsOf = (waves: readonly number[]): string =>
  waves.map((wave, n) => `  - {name: t${n}, baseUrl: "${servers[n]?.url}", wave: ${wave}}\n`).join('');

/** Writes the fleet file: one target for each wave, t0, t1 and so on; more of the file, and of its targets. */
function fleet(waves: readonly number[], more = '', others = ''): void {
  write('fleet.yaml', `${more}defaults: {path: policy, tokenFile: token}\ntargets:\n${targetsOf(waves)}${others}`);
}

const watch = (...more: readonly string[]): Promise<Sidecar> => watchIn('state', ...more);

async function watchIn(state: string, ...more: readonly string[]): Promise<Sidecar> {
  const quick = ['--interval', '1s', '--quiet', '50ms', '--delete-quiet', '50ms', '--state-dir', state];
  const sidecar = await spawnSidecar(['watch', '--fleet', 'fleet.yaml', ...quick, ...more], folder);
  sidecars.push(sidecar);
  return sidecar;
}

interface FleetStatus {
  readonly rollout: string | null;
  readonly targets: readonly {
    readonly name: string;
    readonly applied: string | null;
    readonly headline: { readonly text: string; readonly detail: string };
    readonly conditions: { readonly Ready: { readonly status: string; readonly reason: string } };
  }[];
}

/** Runs a command that ends by itself. */
function runHere(args: readonly string[]): Promise<{ readonly code: number | null; readonly err: string }> {
  return new Promise((resolve) => {
    const command = path.resolve('dist/reconcile.js');
    execFile(process.execPath, [command, ...args], { cwd: folder, timeout: 20_000 }, (error, _out, err) =>
      resolve({ code: error === null ? 0 : Number(error.code ?? -1), err }),
    );
  });
}

const get = async (sidecar: Sidecar, place: string): Promise<string> => (await fetch(`${sidecar.url}${place}`)).text();
const statusOf = async (sidecar: Sidecar): Promise<FleetStatus> => JSON.parse(await get(sidecar, '/status'));
const live = (): readonly string[][] =>
  servers.map((one) =>
    one
      .rules()
      .map(({ destination }) => destination)
      .sort(),
  );
const posts = (server: Simulator | undefined): number =>
  server?.requests().filter(({ method }) => method === 'POST').length ?? 0;

describe('a watch of a fleet', () => {
  it('keeps each server in line by a controller of its own, and a dead one takes nothing from the others (long)', async () => {
    fleet([1, 1, 1], '', '  - {name: dead, baseUrl: "http://127.0.0.1:9"}\n  - {name: wrong, baseUrl: "nonsense"}\n');
    const sidecar = await watch();
    await until(() => live().every(([one]) => one === '10.0.0.1'));
    await until(async () => (await statusOf(sidecar)).targets.slice(0, 3).every(({ applied }) => applied !== null));
    const { targets } = await statusOf(sidecar);
    await until(async () => (await statusOf(sidecar)).targets[3]?.conditions.Ready.reason === 'ApiUnreachable');
    expect(targets[4]?.conditions.Ready.reason).toBe('BadSettings');

    const [id = ''] = servers[1]?.seed([{ action: 'accept', destination: '203.0.113.7' }]) ?? [];
    await until(() => servers[1]?.rules().every((rule) => rule.id !== id) === true);
    expect(await get(sidecar, '/metrics')).toMatch(/^reconcile_condition\{target="t2",type="Ready",reason="\w+"\} 1$/m);
    await until(async () => (await get(sidecar, '/')).includes('3 of 5 targets in sync'));
    expect(await get(sidecar, '/targets/t1/')).toContain(servers[1]?.url);
    expect(JSON.parse(await get(sidecar, '/targets/t1/api/v1/status'))).toMatchObject({ server: servers[1]?.url });
    expect((await fetch(`${sidecar.url}/targets/none/`)).status).toBe(404);
    const some = await runIn(folder, ['status', sidecar.url, '--fleet', 'fleet.yaml', '--target', 't1']);
    expect([some.code, some.out]).toEqual([0, 't1  In sync\n\n1 target; exit 0, for t1.\n']);
    const all = await runIn(folder, ['status', sidecar.url, '--fleet', 'fleet.yaml']);
    expect([all.code, all.out]).toEqual([1, expect.stringMatching(/^dead {3}\S/m)]);
    expect(await get(sidecar, '/healthz')).toBe('ok\n');
    expect(await sidecar.stop()).toBe(0);
  });

  it('never takes a revision that failed in wave 1 to wave 2, after a restart neither (long)', async () => {
    servers[0]?.faults.inject({ match: { method: 'POST' }, fault: { kind: 'status', status: 422 } });
    fleet([1, 2, 2]);
    const before = await watch();
    await until(
      async () => (await statusOf(before)).rollout?.includes('failed at t0 and begins nowhere else') === true,
    );
    expect([posts(servers[1]), posts(servers[2])]).toEqual([0, 0]);
    await before.stop();
    servers[0]?.faults.clear();
    const after = await watch();
    await until(() => live()[0]?.length === 1);
    await until(async () => (await statusOf(after)).targets[0]?.conditions.Ready.status === 'True');
    await until(async () => (await statusOf(after)).targets[1]?.conditions.Ready.reason === 'Waiting');
    expect((await statusOf(after)).targets[1]?.headline.detail).toContain('failed at t0');
    expect([posts(servers[1]), posts(servers[2])]).toEqual([0, 0]);

    write('policy/all.yaml', rules('10.0.0.2'));
    await until(() => live().every(([one, ...more]) => one === '10.0.0.2' && more.length === 0));
  });

  it('begins nowhere else what failed at one target, though the settings of that one cannot be used after a restart (long)', async () => {
    servers[0]?.faults.inject({ match: { method: 'POST' }, fault: { kind: 'status', status: 422 } });
    const defaults = (token: string) =>
      write(
        'fleet.yaml',
        `targets:\n${targetsOf([1, 1]).replaceAll('wave: 1', 'path: policy, tokenFile: token').replace('token}', `${token}}`)}`,
      );
    defaults('token');
    const before = await watch('--target', 't0');
    await until(async () => (await statusOf(before)).targets[0]?.conditions.Ready.reason === 'ApplyFailed');
    await before.stop();
    defaults('gone');
    const after = await watch();
    await until(async () => (await statusOf(after)).rollout?.includes('failed at t0 and begins nowhere else') === true);
    expect((await statusOf(after)).targets[0]?.conditions.Ready.reason).toBe('BadSettings');
    expect(posts(servers[1])).toBe(0);
    write('policy/all.yaml', rules('10.0.0.2'));
    await until(() => live()[1]?.join() === '10.0.0.2');
  });

  it('begins nowhere else what failed at one target, though its state folder is lost: the record lies with the lease (long)', async () => {
    servers[0]?.faults.inject({ match: { method: 'POST' }, fault: { kind: 'status', status: 422 } });
    fleet([1, 1], 'maxParallel: 1\n');
    const lease = ['--lease', 'file:lease', '--lease-duration', '4s'];
    const before = await watch(...lease, '--target', 't0');
    await until(async () => (await statusOf(before)).targets[0]?.conditions.Ready.reason === 'ApplyFailed');
    await before.stop();
    rmSync(path.join(folder, 'state'), { recursive: true });
    servers[0]?.faults.inject({ match: { method: 'GET' }, fault: { kind: 'delay', milliseconds: 5000 } });
    const after = await watch(...lease);
    await until(async () => (await statusOf(after)).rollout?.includes('failed at t0 and begins nowhere else') === true);
    expect(posts(servers[1])).toBe(0);
  });

  it('waits until a wave is confirmed, and takes nothing further that nobody confirmed (long)', async () => {
    fleet([1, 2, 2], '', '');
    write('settings.yaml', 'confirmWith: {command: [/bin/sh, -c, "test -e confirmed"], within: 2s}\n');
    write(
      'fleet.yaml',
      readFileSync(path.join(folder, 'fleet.yaml'), 'utf8').replace('{path', '{config: settings.yaml, path'),
    );
    const sidecar = await watch('--max-deletes', '100%', '--allow-empty');
    await until(() => live()[0]?.length === 1);
    await until(async () => (await statusOf(sidecar)).rollout?.includes('failed at t0') === true);
    await until(() => live()[0]?.length === 0);
    expect([posts(servers[1]), posts(servers[2])]).toEqual([0, 0]);
    write('confirmed', '');
    write('policy/all.yaml', rules('10.0.0.2'));
    await until(() => live().every(([one, ...more]) => one === '10.0.0.2' && more.length === 0));
  });

  it('fetches a branch once for all, and a target that waits keeps its revision over a restart (long)', async () => {
    const upstream = makeUpstream();
    const host = await serveGit(upstream);
    const write3 = (more: string): void =>
      write('fleet.yaml', `${more}defaults: {tokenFile: token}\ntargets:\n${targetsOf([1, 2, 2])}`);
    const git = ['--git-url', `${host.url}/repo.git`, '--git-ref', 'main', '--git-allow', 'http'];
    try {
      const old = upstream.commit({ 'all.yaml': rules('10.0.0.1') });
      write3('');
      const before = await watch(...git);
      await until(async () => (await statusOf(before)).targets.every(({ applied }) => applied === old));
      expect(readdirSync(path.join(folder, 'state/reconcile/fleet/sources'))).toHaveLength(1);
      write3('soak: 1h\n');
      before.child.kill('SIGHUP');
      const next = upstream.commit({ 'all.yaml': rules('10.0.0.2') });
      await until(async () => (await statusOf(before)).rollout?.includes('soaks in earlier waves until') === true);
      await before.stop();

      const after = await watch(...git);
      await until(async () => (await statusOf(after)).targets[0]?.applied === next);
      servers[1]?.seed([{ action: 'accept', destination: '203.0.113.7' }]);
      await until(() => live()[1]?.join() === '10.0.0.1');
      expect(live().map((one) => one.join())).toEqual(['10.0.0.2', '10.0.0.1', '10.0.0.1']);
      expect((await statusOf(after)).rollout).toContain('soaks in earlier waves until');
      write3('');
      after.child.kill('SIGHUP');
      await until(() => live().every(([one, ...more]) => one === '10.0.0.2' && more.length === 0));
    } finally {
      await host.close();
      upstream.remove();
    }
  });

  it('begins an aborted revision nowhere else, after kill -9 neither, and goes on with the next one (long)', async () => {
    const upstream = makeUpstream();
    const host = await serveGit(upstream);
    const write3 = (more: string): void =>
      write('fleet.yaml', `${more}defaults: {tokenFile: token}\ntargets:\n${targetsOf([1, 2, 2])}`);
    const git = ['--git-url', `${host.url}/repo.git`, '--git-ref', 'main', '--git-allow', 'http'];
    const areAt = (...addresses: readonly string[]) =>
      until(() => live().every(([one, ...more], n) => one === addresses[n] && more.length === 0));
    try {
      upstream.commit({ 'all.yaml': rules('10.0.0.1') });
      write3('');
      const before = await watch(...git);
      await areAt('10.0.0.1', '10.0.0.1', '10.0.0.1');
      await until(async () => (await statusOf(before)).targets.every(({ applied }) => applied !== null));
      write3('soak: 1h\n');
      before.child.kill('SIGHUP');
      const bad = upstream.commit({ 'all.yaml': rules('10.0.0.2') });
      await until(async () => (await statusOf(before)).rollout?.includes('soaks') === true);
      write3(`abort: "${bad.slice(0, 9)}"\n`);
      before.child.kill('SIGHUP');
      const isAborted = (sidecar: Sidecar) => async () =>
        (await statusOf(sidecar)).rollout === `${bad.slice(0, 12)} was aborted by the operator`;
      await until(isAborted(before));
      before.child.kill('SIGKILL');
      await before.ended();

      const after = await watch(...git);
      await until(isAborted(after));
      for (const server of servers) server.seed([{ action: 'accept', destination: '203.0.113.7' }]);
      await areAt('10.0.0.2', '10.0.0.1', '10.0.0.1');
      upstream.commit({ 'all.yaml': rules('10.0.0.3') });
      await areAt('10.0.0.3', '10.0.0.3', '10.0.0.3');
    } finally {
      await host.close();
      upstream.remove();
    }
  });

  it('asks for signatures at each target whose settings do, though another that asks for none reads the same (long)', async () => {
    const upstream = makeUpstream();
    const host = await serveGit(upstream);
    write('signers', `a@example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA${'A'.repeat(44)}\n`);
    write('strict.yaml', `gitVerifySsh: ${path.join(folder, 'signers')}\n`);
    const targets = servers.map(
      ({ url }, n) => `  - {name: t${n}, baseUrl: "${url}"${n === 1 ? ', config: strict.yaml' : ''}}\n`,
    );
    write('fleet.yaml', `defaults: {tokenFile: token}\ntargets:\n${targets.join('')}`);
    try {
      upstream.commit({ 'all.yaml': rules('10.0.0.1') });
      const sidecar = await watch('--git-url', `${host.url}/repo.git`, '--git-ref', 'main', '--git-allow', 'http');
      await until(async () => (await statusOf(sidecar)).targets.filter(({ applied }) => applied !== null).length >= 2);
      await until(async () => (await statusOf(sidecar)).targets[1]?.conditions.Ready.reason === 'SignatureRefused');
      expect([posts(servers[0]), posts(servers[1]), posts(servers[2])]).toEqual([1, 0, 1]);
    } finally {
      await host.close();
      upstream.remove();
    }
  });

  it('shares its state directory with no other process, whatever targets that one watches', async () => {
    fleet([1, 1]);
    const first = await watch('--target', 't0');
    await until(() => live()[0]?.length === 1);
    const second = await runHere(['watch', '--fleet', 'fleet.yaml', '--target', 't1', '--state-dir', 'state']);
    expect(second).toMatchObject({ code: 1, err: expect.stringContaining('is in use by process') });
    expect(posts(servers[1])).toBe(0);
    expect(await first.stop()).toBe(0);
    const next = await watch('--target', 't1');
    await until(() => live()[1]?.length === 1);
    expect(await next.stop()).toBe(0);
  });

  it('pauses, is told so by SIGHUP, and stays paused after a restart (long)', async () => {
    fleet([1, 2, 2], 'paused: true\n');
    const before = await watch();
    await until(async () => (await statusOf(before)).rollout?.includes('the fleet is paused') === true);
    fleet([1, 2, 2]);
    before.child.kill('SIGHUP');
    await until(() => live().every(([one]) => one === '10.0.0.1'));
    await until(async () => (await statusOf(before)).targets.every(({ applied }) => applied !== null));
    fleet([1, 2, 2], 'paused: true\n');
    before.child.kill('SIGHUP');
    await until(() =>
      before.log().some(({ msg, paused }) => msg === 'The fleet file was read again' && paused === true),
    );
    await before.stop();

    const after = await watch();
    write('policy/all.yaml', rules('10.0.0.2'));
    await until(async () => (await statusOf(after)).rollout?.includes('the fleet is paused') === true);
    expect(await get(after, '/')).toContain('the fleet is paused');
    expect(live().map(([one]) => one)).toEqual(['10.0.0.1', '10.0.0.1', '10.0.0.1']);
    fleet([1, 2, 2]);
    after.child.kill('SIGHUP');
    await until(() => live().every(([one]) => one === '10.0.0.2'));
  });

  it('stays paused when another replica takes over, though only the first was told by SIGHUP (long)', async () => {
    fleet([1, 1]);
    const lease = ['--lease', 'file:lease', '--lease-duration', '4s'];
    const first = await watch(...lease);
    await until(async () => (await statusOf(first)).targets.every(({ applied }) => applied !== null));
    const second = await watchIn('other', ...lease);
    const isAt = (role: string) => async () => {
      const texts = await Promise.all(['t0', 't1'].map((name) => get(second, `/targets/${name}/status`)));
      return texts.every((text) => JSON.parse(text).role === role);
    };
    await until(isAt('standby'));
    fleet([1, 1], 'paused: true\n');
    first.child.kill('SIGHUP');
    await until(async () => (await statusOf(first)).rollout === 'the fleet is paused');
    write('policy/all.yaml', rules('10.0.0.2'));
    await until(async () =>
      (await statusOf(first)).targets.every(({ conditions }) => conditions.Ready.reason === 'Waiting'),
    );
    await first.stop();
    await until(isAt('writer'));
    await until(async () => (await statusOf(second)).rollout?.includes('waits: the fleet is paused') === true);
    await until(async () =>
      (await statusOf(second)).targets.every(({ conditions }) => conditions.Ready.reason === 'Waiting'),
    );
    expect(live().map((one) => one.join())).toEqual(['10.0.0.1', '10.0.0.1', '']);
    fleet([1, 1]);
    second.child.kill('SIGHUP');
    await until(() => live()[0]?.join() === '10.0.0.2' && live()[1]?.join() === '10.0.0.2');
  });

  it('is woken at every target by a webhook that is signed, and by no other', async () => {
    const upstream = makeUpstream();
    const host = await serveGit(upstream);
    write('hook-secret', 'hook-secret-canary\n');
    write('fleet.yaml', `defaults: {tokenFile: token}\ntargets:\n${targetsOf([1, 1, 1])}`);
    try {
      const first = upstream.commit({ 'all.yaml': rules('10.0.0.1') });
      const git = ['--git-url', `${host.url}/repo.git`, '--git-ref', 'main', '--git-allow', 'http'];
      const hooks = ['--webhook-listen', '127.0.0.1:0', '--webhook-secret-file', 'hook-secret', '--interval', '1h'];
      const sidecar = await watch(...git, ...hooks);
      const areAt = (commit: string) => async () =>
        (await statusOf(sidecar)).targets.every(({ applied }) => applied === commit);
      await until(areAt(first));
      const next = upstream.commit({ 'all.yaml': rules('10.0.0.2') });
      const post = (signature: string) => {
        const headers = { 'x-hub-signature-256': `sha256=${signature}` };
        return fetch(`${sidecar.webhooks()}/webhook`, { method: 'POST', body: '{}', headers });
      };
      const wokenBy = async (name: string): Promise<number> =>
        (await get(sidecar, `/targets/${name}/status`)).match(/"webhook"/g)?.length ?? 0;
      const reads = host.requests.length;
      expect((await post('00'.repeat(32))).status).toBe(401);
      expect([host.requests.length, await areAt(first)()]).toEqual([reads, true]);
      const good = createHmac('sha256', 'hook-secret-canary').update('{}').digest('hex');
      expect((await post(good)).status).toBe(202);
      await until(areAt(next));
      expect(await Promise.all(['t0', 't1', 't2'].map(wokenBy))).toEqual([1, 1, 1]);
      expect(await get(sidecar, '/metrics')).toContain('reconcile_webhooks_total{result="woken"} 1');
      expect(sidecar.output()).not.toContain('hook-secret-canary');
    } finally {
      await host.close();
      upstream.remove();
    }
  });

  it('says in its log and status that other targets of the fleet file wait for a restart', async () => {
    fleet([1, 1]);
    const sidecar = await watch();
    await until(async () => (await statusOf(sidecar)).targets.every(({ applied }) => applied !== null));
    fleet([1, 1, 1]);
    sidecar.child.kill('SIGHUP');
    const said = 'the targets of the fleet file have changed: restart';
    await until(async () => (await statusOf(sidecar)).rollout === said);
    expect(await get(sidecar, '/')).toContain(said);
    expect(sidecar.log().find(({ detail }) => detail === said)).toMatchObject({
      msg: 'The fleet file is not in force',
    });
    fleet([1, 1]);
    sidecar.child.kill('SIGHUP');
    await until(async () => (await statusOf(sidecar)).rollout === null);
    expect(posts(servers[2])).toBe(0);
  });

  it('says in its status that the fleet file cannot be used, until it can: nobody takes it for paused', async () => {
    fleet([1]);
    const sidecar = await watch();
    await until(() => live()[0]?.length === 1);
    fleet([1], 'paused: yes please\n');
    sidecar.child.kill('SIGHUP');
    await until(async () => (await statusOf(sidecar)).rollout?.includes('the fleet file cannot be used') === true);
    expect((await statusOf(sidecar)).rollout).toContain('`paused` must be true or false');
    fleet([1]);
    sidecar.child.kill('SIGHUP');
    await until(async () => (await statusOf(sidecar)).rollout === null);
  });

  it('ends --once with the worst exit code of all targets, and names those that have it', async () => {
    servers[1]?.seed(Array.from({ length: 30 }, (_, n) => ({ action: 'accept', destination: `203.0.113.${n}` })));
    fleet([2, 1, 1]);
    const once = await watch('--once', '--suspend');
    expect(await once.ended()).toBe(3);
    expect(once.log().find(({ exit }) => exit === 3)).toMatchObject({ targets: ['t1'] });
  });

  it('asks a fleet of one the same as a single server: the same bytes', async () => {
    const asked = (server: Simulator | undefined) =>
      server?.requests().map(({ method, path: place, body }) => [method, place, body].map(String).join(' '));
    const seeded = [{ action: 'accept' as const, destination: '203.0.113.7' }];
    write('policy/all.yaml', rules('10.0.0.1', '10.0.0.2', '2001:db8::1'));
    for (const server of servers.slice(0, 2)) server.seed(seeded);
    fleet([1]);
    const url = servers[1]?.url ?? '';
    const guards = ['--max-deletes', '100%', '--max-changes', '100%', '--once'];
    const many = await watch(...guards);
    expect(await many.ended()).toBe(0);
    const own = ['--base-url', url, '--token-file', 'token', '--quiet', '50ms', '--delete-quiet', '50ms'];
    const alone = await spawnSidecar(['watch', 'policy', ...own, ...guards, '--state-dir', 'alone'], folder);
    expect(await alone.ended()).toBe(0);
    const withoutIds = (lines: readonly string[] | undefined) =>
      lines?.map((one) => one.replace(/[0-9a-f-]{36}/g, 'ID')).sort();
    expect(withoutIds(asked(servers[0]))).toEqual(withoutIds(asked(servers[1])));
    expect(asked(servers[0])?.length).toBeGreaterThan(4);
    expect(live()[0]).toEqual(live()[1]);
  });

  it('needs a state folder for waves, and one folder of manifests', async () => {
    fleet([1, 2]);
    const bare = await spawnSidecar(['watch', '--fleet', 'fleet.yaml'], folder);
    expect([await bare.ended(), bare.output()]).toEqual([1, expect.stringContaining('waves need --state-dir')]);
    mkdirSync(path.join(folder, 'other'));
    fleet([1, 2], '', `  - {name: last, baseUrl: "${servers[2]?.url}", wave: 2, path: other}\n`);
    const two = await runHere(['watch', '--fleet', 'fleet.yaml', '--state-dir', 'state']);
    expect(two).toMatchObject({ code: 1, err: expect.stringContaining('two folders never have the same revision') });
    fleet([1, 1], '', `  - {name: last, baseUrl: "${servers[2]?.url}", path: other}\n`);
    const alike = await runHere(['watch', '--fleet', 'fleet.yaml', '--state-dir', 'state', '--once']);
    expect(alike.err).not.toContain('two folders');
  });
});
