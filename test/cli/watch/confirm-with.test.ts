import { existsSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { parse } from 'yaml';
import { runConfirmCommand } from '../../../src/adapters/confirm-command.ts';
import { makeUpstream, type Upstream } from '../../controller/support/git-host.ts';
import { until } from '../../controller/support/sidecar.ts';
import { type CliRun, ended, rule, spawnReconcile, startWorld, token, type World } from '../harness.ts';

let world: World;
let upstream: Upstream;

beforeEach(async () => {
  world = await startWorld();
  upstream = makeUpstream();
});

afterEach(async () => {
  vi.useRealTimers();
  upstream.remove();
  await world.close();
});

const live = (): readonly string[] =>
  world.simulator
    .rules()
    .map(({ action, destination }) => `${action} ${destination}`)
    .sort();

function rulesOf(...lines: readonly string[]): string {
  return lines
    .map((line, index) => {
      const [action, destination] = line.split(' ');
      return rule(`r${index}`, `action: ${action}, destination: ${destination}`);
    })
    .join('');
}

const configuration = (spec: string): string =>
  `---\napiVersion: firezone/v0\nkind: Configuration\nmetadata: {name: main}\nspec: ${spec}\n`;

/** The arguments and the environment of a sidecar that ends once its newest revision is judged. */
function once(command: string, more: string, source: readonly string[]) {
  const confirm = command === '' ? '' : `confirmWith: {command: [sh, -c, '${command}'], within: 1s}\n`;
  world.write('settings.yaml', `${confirm}${more}`);
  const args = [
    'watch',
    '--once',
    '--config',
    join(world.folder, 'settings.yaml'),
    '--quiet',
    '1ms',
    '--delete-quiet',
    '1ms',
  ];
  const env = { RECONCILE_STATE_DIR: join(world.folder, 'state'), PATH: process.env['PATH'] ?? '' };
  return { args: [...args, ...source], env };
}

function watch(command: string, more = '', ...flags: readonly string[]): Promise<CliRun> {
  const { args, env } = once(command, more, [...flags, 'm']);
  return world.cli(args, { env });
}

function watchGit(command: string, more = '', ...flags: readonly string[]): Promise<CliRun> {
  const { args, env } = once(command, more, ['--git-url', `file://${upstream.bare}`, '--git-allow', 'file', ...flags]);
  return world.cli(args, { env });
}

const before = ['accept 10.2.0.0/16', 'drop 10.1.0.0/16'];
const after = ['accept 10.3.0.0/16', 'drop 10.0.0.0/8'];
const writes = () => world.simulator.requests().filter(({ method }) => method !== 'GET').length;

const root = join(import.meta.dirname, '../../..');

describe('the example of confirmWith', () => {
  it.each(['operations', 'helm'])('of %s.md is a program of the image, and fails with the probe', async (page) => {
    const text = readFileSync(join(root, `docs/how-to/${page}.md`), 'utf8');
    const [, line = ''] = /confirmWith:\n +command: (\[.+\])\n/.exec(text) ?? [];
    const [program = '', ...args] = parse(line) as readonly string[];
    const installed = /--from=build \/usr\/local\/bin\/(\w+) \/usr\/local\/bin/.exec(
      readFileSync(join(root, 'Dockerfile'), 'utf8'),
    );
    expect(program).toBe(installed?.[1]);
    let status = 200;
    const probe = createServer((_, response) => void response.writeHead(status).end());
    await new Promise<void>((resolve) => probe.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(probe.address() as AddressInfo).port}/`;
    const command = [program, ...args.map((arg) => arg.replace('https://probe.example.com', url))];
    const never = new AbortController().signal;
    const given = { command, environment: { PATH: process.env['PATH'] }, cwd: world.folder, timeoutMs: 30_000 };
    const ask = (): Promise<string | null> => runConfirmCommand({ ...given, signal: never });
    expect(await ask()).toBeNull();
    status = 503;
    expect(await ask()).toContain('ended with 1');
    await new Promise((resolve) => probe.close(resolve));
    expect(await ask()).toContain('ended with 1');
  });
});

/** A command that changes the Configuration by hand, and confirms nothing. */
function changeByHand(fields: object): string {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json', accept: 'application/json' };
  const request = JSON.stringify({ method: 'PATCH', headers, body: JSON.stringify({ configuration: fields }) });
  const script = `await fetch('${world.simulator.url}/v0/configuration', ${request});\n`;
  return `${process.execPath} ${world.write('change.mjs', script)}; exit 1`;
}

describe('the only way to sign in', () => {
  const okta =
    '{default_client_mtu: 1400, openid_connect_providers: [{id: okta, label: Okta, client_id: c, client_secret: {env: RECONCILE_SECRET_X}, discovery_document_uri: "https://idp.example/x", auto_create_users: false}]}';
  it.each([
    ['Git, where the confirmed commit has no provider', configuration('{openid_connect_providers: []}')],
    ['Git, where it leaves the Configuration alone', ''],
    ['a directory', ''],
  ])(
    'confirmWith going back × a change by hand that leaves what the revision made as the only way to sign in: %s',
    async (name, confirmed) => {
      const isGit = name.includes('Git');
      const publish = (text: string) =>
        isGit ? upstream.commit({ 'rules.yaml': text }) : world.write('m/rules.yaml', text);
      const runOnce = async (command: string) => {
        const secret = ['--bind-secret', 'RECONCILE_SECRET_X=okta@idp.example'];
        const source = isGit
          ? ['--git-url', `file://${upstream.bare}`, '--git-allow', 'file', ...secret]
          : [...secret, 'm'];
        const { args, env } = once(command, '', source);
        return await world.cli(args, { env: { ...env, RECONCILE_SECRET_X: 'canary-secret' } });
      };
      publish(rulesOf(...before) + confirmed);
      expect((await runOnce('exit 0')).code).toBe(0);
      const mtu = world.simulator.configuration()['default_client_mtu'];
      publish(rulesOf(...after) + configuration(okta));
      const back = await runOnce(changeByHand({ local_auth_enabled: false }));
      expect([back.code, live()], back.err).toEqual([3, before]);
      expect(world.simulator.configuration()).toMatchObject({
        default_client_mtu: mtu,
        local_auth_enabled: false,
        openid_connect_providers: [{ id: 'okta' }],
      });
      expect(back.err).toMatch(
        /Something is not taken back detail="`openid_connect_providers` is not taken back: nobody/,
      );
      expect(back.err).toContain('what it changed was taken back, but for this: `openid_connect_providers`');
      expect((await runOnce('exit 0')).code).toBe(3);
      expect(world.simulator.configuration()).toMatchObject({ openid_connect_providers: [{ id: 'okta' }] });
    },
  );
});

describe('confirmWith over a directory', () => {
  it('keeps what its command confirms, and gives it no token', async () => {
    world.write('m/rules.yaml', rulesOf(...before));
    const kept = await watch(`env > ${join(world.folder, 'seen')}`);
    expect([kept.code, live()], kept.err).toEqual([0, before]);
    expect(world.read('seen')).not.toContain('test-token');
    expect(kept.err).toContain('A revision waits to be confirmed');
  });

  it('without a confirmed revision it puts back what others had made, with their Configuration', async () => {
    world.simulator.seed([{ action: 'accept', destination: '172.16.0.0/12' }]);
    const mtu = world.simulator.configuration()['default_client_mtu'];
    world.write('m/rules.yaml', rulesOf(...after) + configuration('{default_client_mtu: 1400}'));
    const back = await watch('exit 7', '', '--allow-empty', '--max-deletes', '100%');
    expect([back.code, live()], back.err).toEqual([3, ['accept 172.16.0.0/12']]);
    expect(world.simulator.configuration()).toMatchObject({ default_client_mtu: mtu });
    expect(back.err).toContain('was not confirmed in time (the command ended with 7)');
  });

  it('after a restart it puts back what is recorded, and does not try the same content again', async () => {
    world.write('m/rules.yaml', rulesOf(...before) + configuration('{default_client_mtu: 1300}'));
    expect((await watch('exit 0')).code).toBe(0);
    world.write('m/rules.yaml', rulesOf(...after) + configuration('{default_client_mtu: 1400}'));
    const back = await watch('exit 1');
    expect([back.code, live()], back.err).toEqual([3, before]);
    expect(world.simulator.configuration()).toMatchObject({ default_client_mtu: 1300 });
    const sent = writes();
    expect([(await watch('exit 0')).code, writes()]).toEqual([3, sent]);
    world.write('m/rules.yaml', rulesOf('drop 10.7.0.0/16', ...before));
    expect([(await watch('exit 0')).code, live()]).toEqual([
      0,
      ['accept 10.2.0.0/16', 'drop 10.1.0.0/16', 'drop 10.7.0.0/16'],
    ]);
    const history = await world.cli(['history'], { env: { RECONCILE_STATE_DIR: join(world.folder, 'state') } });
    expect(history.out).toContain('sidecar, going back');
  });

  it('takes back with a revision what the one before, which the server refused in part, had written', async () => {
    const mtu = () => world.simulator.configuration()['default_client_mtu'];
    const asItWas = mtu();
    const go = world.write('go', '');
    const { args, env } = once(`test -e ${go}`, 'interval: 300ms\n', ['m']);
    const said: string[] = [];
    const says = (text: string) => () => said.join('').includes(text);
    world.write('m/rules.yaml', rulesOf(...before));
    const child = spawnReconcile(
      args.filter((one) => one !== '--once'),
      { cwd: world.folder, env: { ...env, RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token } },
    );
    child.stderr?.on('data', (text) => said.push(String(text)));
    await until(says('result=good'));
    const match = { method: 'POST', path: '/v0/rules' };
    world.simulator.faults.inject({ match, fault: { kind: 'status', status: 422 } });
    world.write('m/rules.yaml', rulesOf(...before, 'drop 10.66.0.0/16') + configuration('{default_client_mtu: 1400}'));
    await until(says('ApplyFailed'));
    world.simulator.faults.clear();
    rmSync(go);
    world.write('m/rules.yaml', rulesOf(...before, 'drop 10.67.0.0/16') + configuration('{default_client_mtu: 1400}'));
    await until(() => live().includes('drop 10.67.0.0/16'));
    expect(mtu()).toBe(1400);
    await until(says('NotConfirmed'));
    child.kill();
    await ended(child);
    expect([live(), mtu()], said.join('')).toEqual([before, asItWas]);
  });

  it('confirmWith going back × clocks that differ: it goes back, and names the rule that may have ended', async () => {
    const ends = new Date(Date.now() + 360_000).toISOString();
    const guest = rule('guest', `action: accept, destination: 10.9.0.0/16, expires: "${ends}"`);
    world.write('m/rules.yaml', guest + rulesOf(...before));
    expect((await watch('exit 0')).code).toBe(0);
    world.write('m/rules.yaml', rulesOf(...after));
    world.simulator.faults.inject({ fault: { kind: 'wrong-date', milliseconds: 420_000 } });
    const back = await watch('exit 1');
    expect([back.code, live()], back.err).toEqual([3, before]);
    expect(back.err).toMatch(/Something is not taken back.*Not undone: the rule guest \(accept 10\.9\.0\.0\/16/);
    expect(back.err).toMatch(/was taken back, but for this: .*whether `guest` is in force cannot be told/);
  });

  it('says which field of the Configuration stays, because the process that knew its secret was killed (long)', async () => {
    const provider = (label: string): string =>
      `{openid_connect_providers: [{id: okta, label: ${label}, client_id: c, client_secret: {env: RECONCILE_SECRET_X}, discovery_document_uri: "https://idp.example/x", auto_create_users: false}]}`;
    const bound = ['--bind-secret', 'RECONCILE_SECRET_X=okta@idp.example', 'm'];
    const start = (command: string, secret: string) => {
      const { args, env } = once(command, '', bound);
      return { args, env: { ...env, RECONCILE_SECRET_X: secret } };
    };
    world.write('m/rules.yaml', rulesOf(...before) + configuration(provider('Okta')));
    const first = start('exit 0', 'canary-secret');
    expect((await world.cli(first.args, first)).code).toBe(0);
    world.write('m/rules.yaml', rulesOf(...after) + configuration(provider('Renamed')));
    const { args, env } = start('kill -9 $PPID', 'another-secret');
    const child = spawnReconcile(args, {
      cwd: world.folder,
      env: { ...env, RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token },
    });
    await ended(child);
    const next = start('exit 1', 'another-secret');
    const back = await world.cli(next.args, next);
    expect([back.code, live()], back.err).toEqual([3, before]);
    expect(back.err).toMatch(
      /Something is not taken back detail="`openid_connect_providers` stays as the apply wrote it/,
    );
    expect(back.err).toMatch(/what it changed was taken back, but for this: `openid_connect_providers` stays/);
  });

  it('confirmWith going back × expires: a rule that expired meanwhile is not made again', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const until = new Date(Date.now() + 3_600_000).toISOString();
    const guest = rule('guest', `action: accept, destination: 10.9.0.1, expires: "${until}"`);
    world.write('m/rules.yaml', rulesOf(...before) + guest);
    expect((await watch('exit 0')).code).toBe(0);
    expect(live()).toContain('accept 10.9.0.1');
    world.write('m/rules.yaml', rulesOf('accept 10.3.0.0/16', ...before));
    world.simulator.onCall(({ method }) => {
      if (method === 'POST') vi.setSystemTime(Date.now() + 2 * 3_600_000);
    });
    const back = await watch('exit 1');
    expect([back.code, live()], back.err).toEqual([3, before]);
  });

  it('a program that is not there is said before anything is written', async () => {
    world.write('m/rules.yaml', rulesOf(...before));
    const { args, env } = once('', 'confirmWith: {command: [no-such-program]}\n', ['m']);
    const refused = await world.cli(args, { env });
    expect([refused.code, refused.err, live()]).toEqual([
      1,
      expect.stringContaining('confirmWith: there is no program'),
      [],
    ]);
  });

  it('is refused where a restart would forget what to put back: a directory without a state folder, or Git without one and without a lease', async () => {
    world.write('m/rules.yaml', rulesOf(...before));
    upstream.commit({ 'rules.yaml': rulesOf(...before) });
    const git = ['--git-url', `file://${upstream.bare}`, '--git-allow', 'file'];
    for (const source of [['m'], ['m', '--lease', 'file:lock'], git]) {
      const { args, env } = once('exit 0', '', source);
      const refused = await world.cli(args, { env: { PATH: env.PATH } });
      expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('confirmWith needs --state-dir')]);
    }
    expect([live(), writes()]).toEqual([[], 0]);
    const { args, env } = once('exit 0', '', [...git, '--lease', 'file:lock']);
    expect((await world.cli(args, { env: { PATH: env.PATH } })).code).toBe(0);
  });

  it('wrong settings are said with their place', async () => {
    const { args, env } = once('', 'confirmWith: {command: curl, within: soon}\n', ['m']);
    const refused = await world.cli(args, { env });
    expect(refused.err).toMatch(/settings\.yaml:1:\d+.*`confirmWith\.command` must be/);
    expect(refused.err).toContain('`confirmWith.within` must be a time, such as 90s or 5m');
  });
});

describe('confirmWith over Git', () => {
  it('goes back to the confirmed commit, and puts back what that one leaves alone', async () => {
    upstream.commit({ 'rules.yaml': rulesOf(...before) });
    expect((await watchGit('exit 0')).code).toBe(0);
    const mtu = world.simulator.configuration()['default_client_mtu'];
    upstream.commit({ 'rules.yaml': rulesOf(...after) + configuration('{default_client_mtu: 1400}') });
    const back = await watchGit('exit 1');
    expect([back.code, live()], back.err).toEqual([3, before]);
    expect(back.err).not.toContain('not taken back');
    expect(world.simulator.configuration()).toMatchObject({ default_client_mtu: mtu });
    const sent = writes();
    expect([(await watchGit('exit 0')).code, writes()]).toEqual([3, sent]);
    upstream.commit({ 'rules.yaml': rulesOf('drop 10.7.0.0/16') });
    expect([(await watchGit('exit 0')).code, live()]).toEqual([0, ['drop 10.7.0.0/16']]);
  });

  it('names a field that others changed meanwhile, which stays', async () => {
    upstream.commit({ 'rules.yaml': rulesOf(...before) });
    expect((await watchGit('exit 0')).code).toBe(0);
    upstream.commit({ 'rules.yaml': rulesOf(...after) + configuration('{default_client_mtu: 1400}') });
    const back = await watchGit(changeByHand({ default_client_mtu: 1500 }));
    expect([back.code, live()], back.err).toEqual([3, before]);
    expect(back.err.match(/Something is not taken back.*/g)).toEqual([
      'Something is not taken back detail="Not undone: `default_client_mtu` was changed again."',
    ]);
    expect(world.simulator.configuration()).toMatchObject({ default_client_mtu: 1500 });
  });

  it('leaves as it is what it corrected and the confirmed revision asks for too, and what others made meanwhile (long)', async () => {
    upstream.commit({ 'rules.yaml': rulesOf(...before) });
    expect((await watchGit('exit 0')).code).toBe(0);
    const [lost] = world.simulator.rules();
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const rules = `${world.simulator.url}/v0/rules`;
    const body = JSON.stringify({ rule: { action: 'accept', destination: '10.77.0.0/16' } });
    world.write(
      'change.mjs',
      `await fetch('${rules}/${lost?.id}', ${JSON.stringify({ method: 'DELETE', headers })});
      await fetch('${rules}', ${JSON.stringify({ method: 'POST', headers, body })});
      await import('node:fs').then((fs) => fs.writeFileSync('${join(world.folder, 'changed')}', ''));\n`,
    );
    upstream.commit({ 'rules.yaml': rulesOf(...before, 'drop 10.66.0.0/16') });
    const change = `[ -e ${join(world.folder, 'changed')} ] || ${process.execPath} ${join(world.folder, 'change.mjs')}; exit 1`;
    const back = await watchGit(change, '', '--on-drift', 'report', '--interval', '300ms');
    expect([back.code, live()], back.err).toEqual([3, before]);
  });

  it('no guard, window, policy test or required note holds it (long)', async () => {
    const guarded = `---\napiVersion: firezone/v0\nkind: PolicyTest\nmetadata: {name: t}\nspec:\n  cases:\n    - {name: c, destination: 10.0.0.1, expect: drop, always: true}\n`;
    upstream.commit({ 'rules.yaml': rulesOf(...before) + guarded.replace('expect: drop', 'expect: accept') });
    expect((await watchGit('exit 0')).code).toBe(0);
    upstream.commit({ 'rules.yaml': rulesOf(...after) + guarded });
    // What the guards ask for from now on comes with the change.
    const strict =
      'windows:\n  - {kind: allow, schedule: "0 0 1 1 *", duration: 1m}\nprotect:\n  - {destination: 10.2.0.0/16}\nrequire: [owner]\n';
    const reached = join(world.folder, 'closed');
    const written = await watchGit(`touch ${reached}; exit 1`);
    expect([written.code, live(), existsSync(reached)], written.err).toEqual([3, before, true]);
    upstream.commit({ 'rules.yaml': rulesOf(...after, 'drop 192.0.2.0/24') });
    // It is killed as it waits; the next start has other settings.
    const { args, env } = once(`kill -9 $PPID`, '', ['--git-url', `file://${upstream.bare}`, '--git-allow', 'file']);
    const child = spawnReconcile(args, {
      cwd: world.folder,
      env: { ...env, RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token },
    });
    await ended(child);
    expect(live()).toContain('drop 192.0.2.0/24');
    const limits = [
      '--max-changes',
      '0',
      '--max-deletes',
      '0',
      '--fail-on',
      'any',
      '--max-exposure',
      'none',
      '--strict',
    ];
    const back = await watchGit('exit 1', strict, ...limits);
    expect([back.code, live()], back.err).toEqual([3, before]);
  });

  it('the scope holds it: what others make there meanwhile stays (long)', async () => {
    upstream.commit({ 'rules.yaml': rulesOf(...before) });
    const scope = 'scope: {networks: [10.0.0.0/8]}\n';
    expect((await watchGit('exit 0', scope)).code).toBe(0);
    world.simulator.seed([{ action: 'drop', destination: '192.0.2.0/24' }]);
    upstream.commit({ 'rules.yaml': rulesOf(...after) });
    expect([(await watchGit('exit 1', scope)).code, live()]).toEqual([3, [...before, 'drop 192.0.2.0/24']]);
  });

  it('with --prune none it takes away what the revision made (long)', async () => {
    upstream.commit({ 'rules.yaml': rulesOf(...before) });
    expect((await watchGit('exit 0')).code).toBe(0);
    upstream.commit({ 'rules.yaml': rulesOf('accept 10.3.0.0/16', ...before) });
    const back = await watchGit('exit 1', '', '--prune', 'none');
    expect([back.code, live()], back.err).toEqual([3, before]);
  });
});

describe('kill -9 at every step of the apply and of the way back', () => {
  it.each([
    ['a directory, in the middle of the way back', false, 8],
    ['a directory (long)', false, 1],
    ['git (long)', true, 1],
  ])(
    'confirmWith going back × kill -9 at any step: %s',
    async (_, isGit, from) => {
      const publish = (text: string): void => {
        if (isGit) upstream.commit({ 'rules.yaml': text });
        else world.write('m/rules.yaml', text);
      };
      const source = isGit ? ['--git-url', `file://${upstream.bare}`, '--git-allow', 'file'] : ['m'];
      const run = (command: string): Promise<CliRun> =>
        world.cli(once(command, '', source).args, { env: once(command, '', source).env });
      publish(rulesOf(...before) + configuration('{default_client_mtu: 1300}'));
      expect((await run('exit 0')).code).toBe(0);
      for (let boundary = from; ; boundary++) {
        publish(rulesOf(...after) + configuration(`{default_client_mtu: ${1400 + boundary}}`));
        let sent = 0;
        const { args, env } = once('exit 1', '', source);
        const child = spawnReconcile([...args, '--concurrency', '1'], {
          cwd: world.folder,
          env: { ...env, RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token },
        });
        const off = world.simulator.onCall(({ method }) => {
          if (method !== 'GET' && ++sent === boundary) child.kill('SIGKILL');
        });
        const { code } = await ended(child);
        off();
        const next = code === null ? await run('exit 1') : null;
        expect([boundary, next?.code ?? code, live()], next?.err).toEqual([boundary, 3, before]);
        expect(world.simulator.configuration()).toMatchObject({ default_client_mtu: 1300 });
        if (code !== null) expect(boundary).toBeGreaterThan(8);
        if (code !== null || from > 1) break;
      }
    },
    400_000,
  );
});
