import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { StateFiles } from '../../src/adapters/state-files.ts';
import { loadRecord, pruneHistory, walkHistory } from '../../src/cli/history.ts';
import { encodeApplyRecord } from '../../src/pass/history.ts';
import { liveRules } from '../plan/support.ts';
import { alice, configuration, ended, rule, spawnReconcile, startWorld, token, type World } from './harness.ts';

let world: World;
let env: Readonly<Record<string, string>>;

beforeEach(async () => {
  world = await startWorld();
  env = { RECONCILE_STATE_DIR: join(world.folder, 'state'), USER: 'carol' };
});

afterEach(() => {
  vi.useRealTimers();
  return world.close();
});

const run = (...args: readonly string[]) => world.cli(args, { env });
const live = (): readonly string[] =>
  world.simulator
    .rules()
    .map(({ action, destination }) => `${action} ${destination}`)
    .sort();

function manifests(rules: readonly string[], spec?: string): void {
  const items = rules.map((line, index) => {
    const [action, destination] = line.split(' ');
    return `    - {name: r${index}, action: ${action}, destination: "${destination}"}\n`;
  });
  const configuration =
    spec === undefined
      ? ''
      : `---\napiVersion: firezone/v0\nkind: Configuration\nmetadata: {name: main}\nspec: ${spec}\n`;
  world.write(
    'm/rules.yaml',
    `apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: web}\nspec:\n  rules:\n${items.join('')}${configuration}`,
  );
}

async function call(method: string, path: string, body?: unknown): Promise<void> {
  const headers = { authorization: `Bearer ${token}`, accept: 'application/json', 'content-type': 'application/json' };
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  expect((await fetch(`${world.simulator.url}${path}`, { method, headers, ...sent })).ok).toBe(true);
}

/** Somebody revokes a rule by hand as the next run writes for the first time. Returns what ends that. */
function revokeAtWrite(destination: string): () => void {
  let [isWritten, off] = [false, () => {}];
  off = world.simulator.onCall(async ({ method }) => {
    if (method === 'GET' || isWritten) return;
    isWritten = true;
    const id = world.simulator.rules().find((one) => one.destination === destination)?.id;
    await call('DELETE', `/v0/rules/${id}`);
  });
  return off;
}

describe('history', () => {
  it('lists who applied what, newest first, privately, and keeps the last 50', async () => {
    manifests(['drop 10.1.0.0/16']);
    expect((await run('m')).code).toBe(0);
    manifests(['drop 10.1.0.0/16', 'accept 10.2.0.0/16']);
    expect((await run('m')).code).toBe(0);
    expect((await run('m')).code).toBe(0); // nothing to write: no record
    const { applies } = (await run('history', '--output', 'json')).json() as unknown as {
      applies: readonly Record<string, unknown>[];
    };
    expect(applies).toMatchObject([
      { number: 2, by: 'carol', created: 1, deleted: 0, end: 'converged', server: world.simulator.url },
      { number: 1, created: 1 },
    ]);
    expect((await run('history')).out).toMatch(/^ +2 .* 1 created, by carol, from \S+: converged$/m);
    expect((await run('history', 'show', '2')).out).toContain('+ accept 10.2.0.0/16  (web/r1)');
    const folder = join(world.folder, 'state', 'reconcile', 'history');
    for (const name of readdirSync(folder)) expect(statSync(join(folder, name)).mode & 0o777).toBe(0o600);
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    for (let number = 3; number < 60; number++) writeFileSync(join(folder, `${number}.json`), '{"cut');
    manifests(['drop 10.5.0.0/16']);
    expect((await run('m')).code).toBe(0);
    expect(readdirSync(folder)).toHaveLength(50);
    expect((await run('history', '--prune')).out).toContain('50 records removed');
    expect((await run('history')).out).toContain('No applies are recorded');
  });

  it('calls a rule that was replaced by its own name, not by that of the rule that came for it', async () => {
    world.write('m/rules.yaml', rule('open', 'action: accept, destination: 10.1.0.0/16'));
    expect((await run('m')).code).toBe(0);
    world.write('m/rules.yaml', rule('closed', 'action: drop, destination: 10.1.0.0/16'));
    expect((await run('m')).code).toBe(0);
    const { out } = await run('history', 'show', '2');
    expect(out).toMatch(/\+ drop 10\.1\.0\.0\/16 +\(closed\)\n +- accept 10\.1\.0\.0\/16 +\(open\)/);
  });

  it('names a record that cannot be read, which may be the last apply', async () => {
    manifests(['drop 10.1.0.0/16']);
    await run('m');
    writeFileSync(join(world.folder, 'state/reconcile/history/2.json'), '{');
    expect((await run('history')).out).toMatch(/^ {3}2 {2}cannot be read or undone\n {3}1 {2}\d{4}-/);
    const { applies } = (await run('history', '--output', 'json')).json() as unknown as { applies: readonly unknown[] };
    const error = expect.stringContaining('apply 2 in ');
    expect(applies).toEqual([{ number: 2, error }, expect.objectContaining({ number: 1 })]);
  });

  it('removes the oldest records where all together are too large, and never the newest', async () => {
    const folder = join(world.folder, 'state/reconcile/history');
    const applied = async (destination: string) => {
      manifests([`drop ${destination}`]);
      expect((await run('m')).code).toBe(0);
    };
    await applied('10.1.0.0/16');
    truncateSync(join(folder, '1.json'), 600_000_000);
    await applied('10.2.0.0/16');
    expect(readdirSync(folder)).toEqual(['2.json']);
    truncateSync(join(folder, '2.json'), 300_000_000);
    await applied('10.3.0.0/16');
    truncateSync(join(folder, '3.json'), 300_000_000);
    await applied('10.4.0.0/16');
    expect(readdirSync(folder).sort()).toEqual(['3.json', '4.json']);
  });

  it.each(['soon', null, 1e300])('names a record that says of an end what is no time, %j', async (end) => {
    manifests(['drop 10.1.0.0/16']);
    await run('m');
    const file = join(world.folder, 'state/reconcile/history/1.json');
    const record = JSON.parse(readFileSync(file, 'utf8')) as object;
    writeFileSync(file, JSON.stringify({ ...record, expires: { 'drop 10.1.0.0/16 *': end } }));
    const undo = await run('undo', '1', '--dry-run', '--allow-empty');
    expect([undo.code, undo.err]).toEqual([1, expect.stringContaining('an `expires` in it is not a time')]);
  });

  it('holds what a sidecar with a state folder applied, and undoes that too', async () => {
    manifests(['drop 10.1.0.0/16']);
    const state = join(world.folder, 'state');
    const watched = await world.cli(['--watch', '--once', '--state-dir', state, 'm']);
    expect(watched.code, watched.out + watched.err).toBe(0);
    expect((await run('history')).out).toMatch(/ 1 created, by sidecar, from \S+: converged$/m);
    expect((await run('undo', '--allow-empty')).code).toBe(0);
    expect(live()).toEqual([]);
    const twice = await run('undo', '--allow-empty');
    expect([twice.code, twice.out + twice.err]).toEqual([0, expect.not.stringContaining('undone-not-in-git')]);
    expect(live()).toEqual(['drop 10.1.0.0/16']);
    expect((await run('undo', '1', '--allow-empty')).code).toBe(0);
    const nothing = await run('undo', '1', '--dry-run', '--allow-empty');
    expect([nothing.code, nothing.out + nothing.err]).toEqual([0, expect.not.stringContaining('undone-not-in-git')]);
  });

  it('is listed with --state-dir alone, and undo names the server that it then lacks', async () => {
    manifests(['drop 10.1.0.0/16']);
    await run('m');
    const nowhere = { env: { ...env, RECONCILE_BASE_URL: '' } };
    expect(await world.cli(['history'], nowhere)).toMatchObject({
      code: 0,
      out: expect.stringContaining('1 created, by carol'),
    });
    const undone = await world.cli(['undo', '--yes'], nowhere);
    expect([undone.code, undone.err]).toEqual([1, expect.stringContaining('and there is no --base-url')]);
  });

  it.each([undefined, ''])(
    'names who applied by number where the environment has no name (%j), as in a container',
    async (user) => {
      manifests(['drop 10.1.0.0/16']);
      const { USER: _, ...nameless } = env;
      expect((await world.cli(['m'], { env: user === undefined ? nameless : { ...nameless, USER: user } })).code).toBe(
        0,
      );
      expect((await run('history')).out).toContain(`by uid ${process.getuid?.()}, `);
    },
  );

  it('a dry run of undo does not say that it is done', async () => {
    manifests(['drop 10.1.0.0/16']);
    await run('m');
    const dry = await run('undo', '--dry-run', '--allow-empty');
    expect(dry.err).toContain('The manifests still ask for what this undoes: ');
    world.simulator.faults.inject({ match: { method: 'DELETE' }, fault: { kind: 'status', status: 403 } });
    const failed = await run('undo', '--allow-empty');
    expect([failed.code, failed.err]).toEqual([1, expect.not.stringContaining('The manifests still ask')]);
    world.simulator.faults.clear();
    const undone = await run('undo', '--allow-empty', '--output', 'markdown=undo.md', '--output', 'json');
    expect(undone.err).toContain('The manifests still ask for what was undone: ');
    expect(undone.json()['problems']).toContainEqual(expect.objectContaining({ code: 'undone-not-in-git' }));
    expect(world.read('undo.md')).toContain('(undone-not-in-git)');
  });

  it('does not say that the manifests ask for what an apply changed that went back', async () => {
    manifests(['drop 10.1.0.0/16']);
    await run('m');
    manifests(['drop 10.1.0.0/16', 'drop 10.2.0.0/16']);
    const args = ['apply', '--yes', '--confirm-with', 'false', '--confirm-within', '100ms', 'm'];
    expect((await world.cli(args, { env: { ...env, PATH: process.env['PATH'] ?? '' } })).code).toBe(3);
    const undone = await run('undo');
    expect([undone.code, live(), undone.err]).toEqual([
      0,
      ['drop 10.1.0.0/16', 'drop 10.2.0.0/16'],
      expect.not.stringContaining('Revert the commit'),
    ]);
  });

  it('says what is wrong with a number that is none, or that is not there', async () => {
    expect(await run('history', 'show', 'x')).toMatchObject({
      code: 1,
      err: expect.stringContaining('not the number of an apply'),
    });
    expect(await run('undo', '7')).toMatchObject({ code: 1, err: expect.stringContaining('apply 7') });
    expect(await run('undo')).toMatchObject({ code: 1, err: expect.stringContaining('no apply is recorded') });
  });
});

describe('undo', () => {
  it('undo × a change that others made since: that stays, and what the apply changed is put back', async () => {
    manifests(['drop 10.1.0.0/16', 'accept 10.2.0.0/16'], '{default_client_mtu: 1300, default_client_dns: [1.1.1.1]}');
    await run('m');
    manifests(['drop 10.0.0.0/8', 'accept 10.3.0.0/16'], '{default_client_mtu: 1400, default_client_dns: [9.9.9.9]}');
    await run('m');
    world.simulator.seed([{ action: 'accept', destination: '172.16.0.0/12' }]);
    await call('PATCH', '/v0/configuration', { configuration: { default_client_dns: ['8.8.8.8'] } });
    const plan = await run('undo', '--dry-run');
    expect(live()).toContain('drop 10.0.0.0/8');
    expect(plan.out).toContain('web-r0');
    const undone = await run('undo');
    expect(undone.code, undone.out + undone.err).toBe(0);
    expect(live()).toEqual(['accept 10.2.0.0/16', 'accept 172.16.0.0/12', 'drop 10.1.0.0/16']);
    expect(world.simulator.configuration()).toMatchObject({
      default_client_mtu: 1300,
      default_client_dns: ['8.8.8.8'],
    });
    expect(undone.out).toContain('Not undone: `default_client_dns` was changed again');
    expect(undone.err).toContain('Revert the commit in Git too');
    // The undo is an apply of its own: undone again, the first change is back.
    expect((await run('undo')).code).toBe(0);
    expect(live()).toEqual(['accept 10.3.0.0/16', 'accept 172.16.0.0/12', 'drop 10.0.0.0/8']);
  });

  it('deletes no rule that somebody makes while it runs', async () => {
    manifests(['drop 10.1.0.0/16']);
    await run('m');
    manifests(['drop 10.1.0.0/16', 'drop 10.2.0.0/16']);
    await run('m');
    world.simulator.onCall(({ method }) => {
      if (method === 'DELETE') world.simulator.seed([{ action: 'accept', destination: '172.16.0.0/12' }]);
    });
    expect((await run('undo')).code).toBe(0);
    expect(live()).toEqual(['accept 172.16.0.0/12', 'drop 10.1.0.0/16']);
  });

  it('makes no rule again that somebody revokes while it runs', async () => {
    manifests(['drop 10.1.0.0/16', 'accept 10.9.0.0/16', 'accept 10.7.0.0/16']);
    await run('m');
    manifests(['drop 10.1.0.0/16', 'accept 10.9.0.0/16', 'accept 10.2.0.0/16', 'accept 10.3.0.0/16']);
    await run('m');
    const off = revokeAtWrite('10.9.0.0/16');
    const undone = await run('undo', '--concurrency', '1');
    off();
    expect([undone.code, live()], undone.out).toEqual([0, ['accept 10.7.0.0/16', 'drop 10.1.0.0/16']]);
    expect(undone.out + undone.err).not.toContain('changed-meanwhile');
  });

  it('sends only what somebody said yes to, though others make a rule of that apply again meanwhile', async () => {
    manifests(['drop 10.1.0.0/16']);
    await run('m');
    manifests(['drop 10.1.0.0/16', 'accept 10.2.0.0/16', 'accept 10.3.0.0/16']);
    await run('m');
    const id = world.simulator.rules().find(({ destination }) => destination === '10.3.0.0/16')?.id;
    await call('DELETE', `/v0/rules/${id}`);
    const off = world.simulator.onCall(({ method }) => {
      if (method === 'DELETE') world.simulator.seed([{ action: 'accept', destination: '10.3.0.0/16' }]);
    });
    const undone = await world.cli(['undo'], { env, answer: 'y' });
    off();
    expect([undone.code, live()], undone.err).toEqual([5, ['accept 10.3.0.0/16', 'drop 10.1.0.0/16']]);
    expect(undone.out).toContain('[replan-refused]');
  });

  it('says that no policy test was run where it opens traffic, and says nothing of them where it opens none', async () => {
    const closed = `${rule('closed', 'action: drop, destination: 10.1.0.0/16')}apiVersion: firezone/v0\nkind: PolicyTest\nmetadata: {name: t}\nspec: {cases: [{name: c, user: any, destination: 10.1.0.0/16, expect: drop}]}\n`;
    world.write('m/rules.yaml', rule('open', 'action: accept, destination: 10.1.0.0/16'));
    expect((await run('m')).code).toBe(0);
    world.write('m/rules.yaml', closed);
    expect((await run('m')).code).toBe(0);
    const plan = await run('undo', '--dry-run');
    expect([plan.code, plan.out + plan.err]).toEqual([0, expect.stringContaining('[tests-not-run]')]);
    expect((await run('undo', '--yes')).out + live().join()).toMatch(/\[tests-not-run\][\s\S]*accept 10\.1\.0\.0\/16$/);
    const closing = await run('undo', '--dry-run');
    expect([closing.code, closing.out + closing.err]).toEqual([0, expect.not.stringContaining('tests-not-run')]);
  });

  it('obeys the guards', async () => {
    manifests(Array.from({ length: 12 }, (_, index) => `drop 10.${index}.0.0/16`));
    await run('m');
    const refused = await run('undo', '1', '--allow-empty');
    expect(refused.code).toBe(3);
    expect(live()).toHaveLength(12);
    expect((await run('undo', '1', '--allow-empty', '--max-deletes', '100%', '--max-changes', '100%')).code).toBe(0);
    expect(live()).toEqual([]);
  });

  it('undoes an apply that ended half-way, and one that was killed before it could say what it did', async () => {
    manifests(['drop 10.1.0.0/16']);
    await run('m');
    world.simulator.faults.inject({ match: { method: 'POST', nth: 2 }, fault: { kind: 'status', status: 403 } });
    manifests(['drop 10.1.0.0/16', 'drop 10.2.0.0/16', 'drop 10.3.0.0/16']);
    expect((await run('m', '--concurrency', '1')).code).toBe(5);
    world.simulator.faults.clear();
    expect(live()).toHaveLength(2);
    const file = join(world.folder, 'state', 'reconcile', 'history', '2.json');
    const record = JSON.parse(readFileSync(file, 'utf8')) as object;
    writeFileSync(file, JSON.stringify({ ...record, end: 'started' }));
    const undone = await run('undo', '2');
    expect(undone.code, undone.out + undone.err).toBe(0);
    expect(live()).toEqual(['drop 10.1.0.0/16']);
  });

  it('puts back the fields that were written beside one that the environment of the server pins', async () => {
    const pinned = await startWorld({ environment: { default_client_persistent_keepalive: 25 } });
    const { folder, simulator } = pinned;
    const env = { RECONCILE_STATE_DIR: join(folder, 'state') };
    const former = simulator.configuration();
    pinned.write('m/c.yaml', configuration('default_client_mtu: 1400\ndefault_client_persistent_keepalive: 30'));
    const applied = await pinned.cli(['m'], { env });
    expect([applied.code, simulator.configuration()['default_client_mtu']], applied.out).toEqual([5, 1400]);
    const undone = await pinned.cli(['undo'], { env });
    expect([undone.code, simulator.configuration()], undone.out).toEqual([
      0,
      { ...former, updated_at: expect.anything() },
    ]);
    expect(undone.out).not.toContain('Not undone');
    await pinned.close();
  });

  it('keeps no secret, and names the one that a provider needs to come back', async () => {
    const provider = (label: string): string =>
      `{openid_connect_providers: [{id: okta, label: ${label}, client_id: c, client_secret: {env: RECONCILE_SECRET_X}, discovery_document_uri: "https://idp.example/x", auto_create_users: false}]}`;
    const given = { ...env, RECONCILE_SECRET_X: 'canary-secret' };
    manifests(['drop 10.1.0.0/16'], provider('Okta'));
    const bound = ['--bind-secret', 'RECONCILE_SECRET_X=okta@idp.example'];
    expect((await world.cli(['m', ...bound], { env: given })).code).toBe(0);
    manifests(['drop 10.1.0.0/16'], provider('Renamed'));
    expect((await world.cli(['m'], { env: given })).code).toBe(0);
    const folder = join(world.folder, 'state', 'reconcile', 'history');
    for (const name of readdirSync(folder)) expect(readFileSync(join(folder, name), 'utf8')).not.toContain('canary');
    const lacking = await run('undo');
    expect(lacking.code).not.toBe(0);
    expect(lacking.out + lacking.err).toContain('RECONCILE_SECRET_OIDC_OKTA');
    // No manifest says what comes back: no output names a place where a reader would look for it.
    const annotated = await run('undo', '--dry-run', '--output', 'github');
    expect(annotated.out).toMatch(/^::warning title=unsent-field::/m);
    expect(annotated.out).not.toContain('file=');
    const comment = (await run('undo', '--dry-run', '--output', 'markdown')).out;
    expect(comment).toContain('undo of apply 2');
    expect(comment).not.toMatch(/`[^`]*:\d+`/);
    const undone = await world.cli(['undo'], { env: { ...env, RECONCILE_SECRET_OIDC_OKTA: 'canary-secret' } });
    expect(undone.code, undone.out + undone.err).toBe(0);
    expect(world.simulator.configuration()).toMatchObject({ openid_connect_providers: [{ label: 'Okta' }] });
  });

  it('does not say that all is in sync where an apply changed only a secret, and that of before is not there', async () => {
    const spec =
      '{openid_connect_providers: [{id: okta, label: Okta, client_id: c, client_secret: {env: RECONCILE_SECRET_X}, discovery_document_uri: "https://idp.example/x", auto_create_users: false}]}';
    const bound = ['--bind-secret', 'RECONCILE_SECRET_X=okta@idp.example'];
    manifests(['drop 10.1.0.0/16'], spec);
    for (const secret of ['canary-one', 'canary-two'])
      expect((await world.cli(['m', ...bound], { env: { ...env, RECONCILE_SECRET_X: secret } })).code).toBe(0);
    const lacking = await run('undo', '--output', 'json=undo.json', '--output', 'text');
    expect([lacking.code, lacking.out]).toEqual([1, expect.not.stringContaining('In sync')]);
    expect(lacking.out).toMatch(
      /`RECONCILE_SECRET_OIDC_OKTA` is not available[\s\S]*error \[unsent-field\] `openid_connect_providers` may differ/,
    );
    expect(JSON.parse(world.read('undo.json')).problems).toContainEqual(
      expect.objectContaining({ code: 'unsent-field', severity: 'error' }),
    );
    const given = { ...env, RECONCILE_SECRET_OIDC_OKTA: 'canary-one' };
    const undo = ['undo', '--bind-secret', 'RECONCILE_SECRET_OIDC_OKTA=okta@idp.example'];
    expect((await world.cli(undo, { env: given })).code).toBe(0);
    expect(world.simulator.configuration()).toMatchObject({
      openid_connect_providers: [{ client_secret: 'canary-one' }],
    });
  });

  it('leaves SAML providers, whose metadata is in no record, as they are, and names them', async () => {
    const idp = (label: string): string =>
      `{default_client_mtu: ${label.length + 1300}, saml_identity_providers: [{id: okta, label: ${label}, metadata: {file: idp.xml}, auto_create_users: true}]}`;
    world.write(
      'm/idp.xml',
      '<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://canary.example/x"/>',
    );
    manifests(['drop 10.1.0.0/16'], idp('Okta'));
    expect((await run('m')).code).toBe(0);
    manifests(['drop 10.1.0.0/16'], idp('Renamed'));
    expect((await run('m')).code).toBe(0);
    const undone = await run('undo');
    expect([undone.code, undone.out]).toEqual([
      0,
      expect.stringContaining(
        '[changed-since] Not undone: `saml_identity_providers` needs SAML metadata, which no record holds: put it back from Git',
      ),
    ]);
    expect(world.simulator.configuration()).toMatchObject({
      default_client_mtu: 1304,
      saml_identity_providers: [{ label: 'Renamed' }],
    });
    const folder = join(world.folder, 'state', 'reconcile', 'history');
    for (const name of readdirSync(folder)) expect(readFileSync(join(folder, name), 'utf8')).not.toContain('canary');
  });

  it('undo × expires: what has expired since is not opened again, and is named; what has not comes back with its end', async () => {
    const spec = (destination: string, expires: string): string =>
      `apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: to-${destination}}\nspec: {action: accept, destination: ${destination}, expires: "${expires}"}\n`;
    const ends = `${new Date(Date.now() + 3_600_000).toISOString().slice(0, 19)}Z`;
    world.write('m/soon.yaml', `${spec('10.1.0.1', ends)}---\n${spec('10.1.0.2', '2099-01-01')}`);
    manifests(['drop 10.9.0.0/16']);
    await run('m');
    world.write('m/soon.yaml', '');
    await run('m');
    expect(live()).toEqual(['drop 10.9.0.0/16']);
    // An hour passes for the first of them.
    const file = join(world.folder, 'state', 'reconcile', 'history', '2.json');
    const record = JSON.parse(readFileSync(file, 'utf8')) as { readonly expires: Readonly<Record<string, number>> };
    expect(record.expires).toMatchObject({ 'accept 10.1.0.1 *': Date.parse(ends) });
    writeFileSync(
      file,
      JSON.stringify({ ...record, expires: { ...record.expires, 'accept 10.1.0.1 *': Date.now() - 1 } }),
    );
    expect((await run('history', 'show', '2')).out).toContain('To put it back: reconcile undo 2\n');
    const elsewhere = ['--state-dir', 'state', '--base-url', world.simulator.url];
    expect((await run('history', 'show', '2', ...elsewhere)).out).toContain(
      `To put it back: reconcile undo 2 --base-url ${world.simulator.url} --state-dir ${join(world.folder, 'state')}\n`,
    );
    const undone = await run('undo');
    expect(undone.code, undone.out + undone.err).toBe(0);
    expect(live()).toEqual(['accept 10.1.0.2', 'drop 10.9.0.0/16']);
    const past = Object.fromEntries(Object.keys(record.expires).map((key) => [key, Date.now() - 1]));
    writeFileSync(file, JSON.stringify({ ...record, expires: past }));
    const shown = (await run('history', 'show', '2')).out;
    expect(shown).toContain('Nothing to put back: it has expired.');
    expect(shown).not.toContain('reconcile undo');
    expect(undone.out).toMatch(/Not undone: the rule to-10\.1\.0\.1 .* expired at /);
    expect(undone.out).toMatch(/expires in \d+ days \(2099-01-0/);
  });

  it('undo × expires: a wrong date that the apply itself brought does not keep the rule from coming back, as often as it is tried', async () => {
    manifests(['drop 10.9.0.0/16']);
    world.write('m/soon.yaml', rule('soon', 'action: accept, destination: 10.1.0.1'));
    await run('m');
    const wrong = rule('soon', 'action: accept, destination: 10.1.0.1, expires: 2025-12-01');
    world.write('m/soon.yaml', wrong);
    for (const confirm of [['--confirm-within', '100ms', '--confirm-with', '/bin/false'], [], []]) {
      const applied = await run('apply', ...confirm, 'm');
      if (confirm.length === 0) {
        expect(live()).toEqual(['drop 10.9.0.0/16']);
        const undone = await run('undo');
        expect([undone.code, undone.out], undone.err).toEqual([0, expect.not.stringContaining('Not undone')]);
      } else expect(applied.code, applied.err).toBe(3);
      expect(live()).toEqual(['accept 10.1.0.1', 'drop 10.9.0.0/16']);
    }
    // The end that it had before counts: also one that is later.
    const later = `${new Date(Date.now() + 3_600_000).toISOString().slice(0, 19)}Z`;
    world.write('m/soon.yaml', rule('soon', `action: accept, destination: 10.1.0.1, expires: "${later}"`));
    await run('m');
    world.write('m/soon.yaml', wrong);
    await run('m');
    const back = await run('undo');
    expect([live(), back.out]).toEqual([['accept 10.1.0.1', 'drop 10.9.0.0/16'], expect.stringMatching(/expires in/)]);
  });

  it('undo × expires: a rule keeps its end through any chain of applies and undos, so that it never comes back for good', async () => {
    const ends = 1000 * Math.floor(Date.now() / 1000 + 3600);
    const spec = `action: accept, destination: 10.1.0.1, expires: "${new Date(ends).toISOString()}"`;
    const key = 'accept 10.1.0.1 *';
    manifests(['drop 10.9.0.0/16']);
    world.write('m/soon.yaml', rule('soon', spec));
    await run('m');
    world.write('m/soon.yaml', '');
    await run('m');
    const endOf = async (...args: readonly string[]): Promise<number | undefined> => {
      const done = await run(...args);
      expect(done.code, done.out + done.err).toBe(0);
      const folder = join(world.folder, 'state', 'reconcile', 'history');
      const newest = Math.max(...readdirSync(folder).map((name) => Number.parseInt(name, 10) || 0));
      const { expires } = JSON.parse(readFileSync(join(folder, `${newest}.json`), 'utf8')) as { expires: object };
      return (expires as Readonly<Record<string, number>>)[key];
    };
    // Back, deleted by the manifests, back, gone by an undo of that undo, and back.
    for (const args of [['undo'], ['m'], ['undo'], ['undo'], ['undo']])
      expect([args, await endOf(...args)]).toEqual([args, ends]);
    expect(live()).toContain('accept 10.1.0.1');
    expect((await run('history', '--prune')).out).toMatch(/^\d+ records removed/m);
    expect((await run('history')).out).toContain('No applies are recorded');
    // A sidecar, which knows no more than its own revision, deletes it too.
    expect(await endOf('--watch', '--once', '--state-dir', join(world.folder, 'state'), 'm')).toBe(ends);
    expect(live()).toEqual(['drop 10.9.0.0/16']);
  });

  it('undo × expires: a rule that came back keeps its end, though its record is older than the last 50', async () => {
    const ends = 1000 * Math.floor(Date.now() / 1000 + 3600);
    const spec = `action: accept, destination: 10.1.0.1, expires: "${new Date(ends).toISOString()}"`;
    manifests(['drop 10.9.0.0/16']);
    world.write('m/soon.yaml', rule('soon', spec));
    await run('m');
    world.write('m/soon.yaml', '');
    await run('m');
    await run('undo');
    const folder = join(world.folder, 'state', 'reconcile', 'history');
    for (let number = 4; number < 60; number++) writeFileSync(join(folder, `${number}.json`), '{"cut');
    manifests(['drop 10.8.0.0/16']);
    expect((await run('m', '--prune', 'none')).code).toBe(0);
    expect(readdirSync(folder)).not.toContain('3.json');
    expect(live()).toContain('accept 10.1.0.1');
    expect((await run('m')).code).toBe(0);
    const { expires } = JSON.parse(readFileSync(join(folder, '61.json'), 'utf8')) as { expires: object };
    expect(expires).toMatchObject({ 'accept 10.1.0.1 *': ends });
  });

  it('undo × expires: an end that a sidecar only read in a manifest counts, though nothing was to be written for it', async () => {
    const hours = (count: number): number => 1000 * Math.floor(Date.now() / 1000 + 3600 * count);
    const spec = (ends: number): string =>
      `action: accept, destination: 10.1.0.1, expires: "${new Date(ends).toISOString()}"`;
    const sooner = hours(1);
    const sidecar = ['--watch', '--once', '--state-dir', join(world.folder, 'state'), 'm'];
    manifests(['drop 10.9.0.0/16']);
    world.write('m/soon.yaml', rule('soon', spec(hours(2))));
    expect((await run('m')).code).toBe(0);
    world.write('m/soon.yaml', rule('soon', spec(sooner)));
    const folder = join(world.folder, 'state', 'reconcile', 'history');
    for (const _ of [1, 2]) expect((await run(...sidecar)).code).toBe(0);
    // Said once, and no apply that anybody could undo.
    expect([readdirSync(folder), (await run('history')).out.split('\n')]).toMatchObject([{ length: 2 }, { length: 2 }]);
    expect((await run('history', 'show', '2')).out).toMatch(/ no changes, by sidecar, /);
    world.write('m/soon.yaml', '');
    expect((await run('m')).code).toBe(0);
    const { expires } = JSON.parse(readFileSync(join(folder, '3.json'), 'utf8')) as { expires: object };
    expect(expires).toMatchObject({ 'accept 10.1.0.1 *': sooner });
    expect(readdirSync(folder).sort()).toEqual(['1.json', '3.json']);
  });

  it('keeps the last 50 applies, however often only ends were noted between them', async () => {
    const soon = (hours: number): string =>
      rule(
        'soon',
        `action: accept, destination: 10.1.0.1, expires: "${new Date(Date.now() + 3.6e6 * hours).toISOString()}"`,
      );
    manifests(['drop 10.9.0.0/16']);
    world.write('m/soon.yaml', soon(1));
    expect((await run('m')).code).toBe(0);
    const folder = join(world.folder, 'state', 'reconcile', 'history');
    for (let number = 2; number <= 50; number++) cpSync(join(folder, '1.json'), join(folder, `${number}.json`));
    world.write('m/soon.yaml', soon(2));
    expect((await run('m')).code).toBe(0);
    expect(readdirSync(folder)).toEqual(expect.arrayContaining(['1.json', '50.json', '51.json']));
    manifests(['drop 10.9.0.0/16', 'drop 10.8.0.0/16']);
    expect((await run('m')).code).toBe(0);
    const numbers = readdirSync(folder).map((name) => Number.parseInt(name, 10));
    expect(numbers.sort((a, b) => a - b)).toEqual([...Array.from({ length: 49 }, (_, at) => at + 2), 52]);
  });

  it.each([
    ['nothing was to be written for it', [], ['m']],
    ['a sidecar wrote nothing for it', [], ['--watch', '--once', 'm']],
    ['only other rules were written', ['drop 10.8.0.0/16'], ['m']],
  ] as const)(
    'undo × expires: a rule whose end was taken out of the manifests comes back for good, though %s',
    async (_, more, apply) => {
      const soon = new Date(Date.now() + 3_600_000).toISOString();
      const spec = 'action: accept, destination: 10.1.0.1';
      const state = ['--state-dir', join(world.folder, 'state')];
      manifests(['drop 10.9.0.0/16']);
      world.write('m/soon.yaml', rule('soon', `${spec}, expires: "${soon}"`));
      expect((await run(...apply, ...state)).code).toBe(0);
      manifests(['drop 10.9.0.0/16', ...more]);
      world.write('m/soon.yaml', rule('soon', spec));
      expect((await run(...apply, ...state)).code).toBe(0);
      world.write('m/soon.yaml', '');
      expect((await run(...apply, ...state)).code).toBe(0);
      expect(live()).not.toContain('accept 10.1.0.1');
      const folder = join(world.folder, 'state', 'reconcile', 'history');
      const newest = Math.max(...readdirSync(folder).map((name) => Number.parseInt(name, 10)));
      expect(JSON.parse(readFileSync(join(folder, `${newest}.json`), 'utf8'))).toHaveProperty('expires', {});
      expect((await run('undo')).code).toBe(0);
      expect(live()).toContain('accept 10.1.0.1');
    },
  );

  it('undo × expires: a rule that had no end comes back for good, though it ended by other lines since, as often as it is tried', async () => {
    const spec = 'action: accept, destination: 10.1.0.1';
    const apply = async (more: string, ...flags: readonly string[]): Promise<number> => {
      world.write('m/soon.yaml', more);
      return (await run('apply', '--yes', ...flags, 'm')).code;
    };
    manifests(['drop 10.9.0.0/16']);
    expect([await apply(rule('r', spec)), await apply('')]).toEqual([0, 0]);
    const soon = new Date(Date.now() + 3_600_000).toISOString();
    expect(await apply(rule('r', `${spec}, expires: "${soon}"`))).toBe(0);
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 7_200_000 });
    env = { ...env, PATH: process.env['PATH'] ?? '' };
    expect(
      await apply(rule('r', spec.replace('10.1', '10.2')), '--confirm-with', 'false', '--confirm-within', '99ms'),
    ).toBe(3);
    // It ended, and neither the trial nor its end put it back; the state before the second apply did hold it.
    expect(live()).toEqual(['drop 10.9.0.0/16']);
    for (const args of [['undo', '2'], ['undo'], ['undo']]) expect((await run(...args)).code).toBe(0);
    expect(live()).toContain('accept 10.1.0.1');
  });

  it('undo × expires: an undo of other rules leaves what is known of the end of a rule that stays', async () => {
    const ends = 1000 * Math.floor(Date.now() / 1000 + 3600);
    world.write(
      'm/soon.yaml',
      rule('soon', `action: accept, destination: 10.1.0.1, expires: "${new Date(ends).toISOString()}"`),
    );
    manifests(['drop 10.9.0.0/16']);
    expect((await run('m')).code).toBe(0);
    manifests(['drop 10.9.0.0/16', 'drop 10.1.0.1']);
    expect((await run('m')).code).toBe(0);
    expect((await run('undo')).code).toBe(0);
    const folder = join(world.folder, 'state', 'reconcile', 'history');
    expect(JSON.parse(readFileSync(join(folder, '3.json'), 'utf8'))).toMatchObject({
      expires: { 'accept 10.1.0.1 *': ends },
    });
  });

  it('undoes no earlier apply where the last record cannot be read, and waits for no pipe', async () => {
    manifests(['drop 10.1.0.0/16']);
    expect((await run('m')).code).toBe(0);
    const folder = join(world.folder, 'state', 'reconcile', 'history');
    execFileSync('mkfifo', [join(folder, '2.json')]);
    const undone = await run('undo');
    expect([undone.code, undone.err, live()]).toEqual([
      1,
      expect.stringMatching(/apply 2 in .* cannot be used[\s\S]*`reconcile undo N`/),
      ['drop 10.1.0.0/16'],
    ]);
    expect((await run('undo', '7')).err).toContain(`no apply 7 is recorded in ${folder}`);
    const named = ['--state-dir', join(world.folder, 'state')] as const;
    expect((await run('undo', ...named)).err).toContain(`\`reconcile undo N ${named.join(' ')}\``);
    expect((await run('undo', 'x', ...named)).err).toContain(`\`reconcile history ${named.join(' ')}\` lists them`);
    expect((await run('undo', '1', '--allow-empty')).code).toBe(0);
    expect(live()).toEqual([]);
  });

  it('says what keeps it from pruning, and removes nothing', async () => {
    manifests(['drop 10.1.0.0/16']);
    expect((await run('m')).code).toBe(0);
    const folder = join(world.folder, 'state', 'reconcile', 'history');
    mkdirSync(join(folder, '7.json'));
    const before = readdirSync(folder);
    const pruned = await run('history', '--prune');
    expect([pruned.code, pruned.err]).toEqual([
      1,
      expect.stringContaining(`the history in ${folder} cannot be pruned (`),
    ]);
    expect(readdirSync(folder)).toEqual(before);
  });

  it('keeps every end and its name while two prune at once, and counts what each really removed', async () => {
    const files = new StateFiles(join(world.folder, 'pruned', 'reconcile'), 'history');
    const numbers = Array.from({ length: 12 }, (_, index) => index + 1);
    const keys = numbers.map((number) => `accept 10.1.0.${number} *`);
    const notes = {
      said: new Map(keys.map((key) => [key, { name: `of ${key}`, expires: Date.now() + 3_600_000 }])),
      endsBefore: new Map(),
    };
    const origin = { at: new Date().toISOString(), by: 'carol', server: null, revision: null, digest: null };
    const nothing = { fields: [], before: null, after: null, deleted: [], end: 'converged' } as const;
    for (const number of numbers) {
      const id = `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`;
      const created = liveRules(`accept 10.1.0.${number}`).map((one) => ({ ...one, id }));
      await files.write(`${number}.json`, encodeApplyRecord({ ...origin, ...nothing, ...notes, created }));
    }
    const flags = [
      'history',
      '--prune',
      '--state-dir',
      join(world.folder, 'pruned'),
      '--base-url',
      world.simulator.url,
    ];
    const started = [1, 2].map(() => spawnReconcile(flags, { cwd: world.folder, env: {} }));
    const pruned = await Promise.all(started.map(ended));
    expect(pruned).toMatchObject([{ code: 0 }, { code: 0 }]);
    expect(pruned.reduce((sum, { out }) => sum + Number.parseInt(out, 10), 0)).toBe(12);
    for await (const { number } of walkHistory(files)) expect.fail(`apply ${number} is still there`);
    expect(await files.list()).toEqual(['13.json']);
    expect(await loadRecord(files, 13)).toMatchObject({ ok: true, value: { ...notes, created: [] } });
    expect(await pruneHistory(files)).toBe(0);
    expect(await files.list()).toEqual(['13.json']);
  });

  it('asks nobody for the owner of a rule that stays or comes back, though the settings require one', async () => {
    world.write('settings.yaml', 'require: [owner]\n');
    const config = ['--config', join(world.folder, 'settings.yaml')];
    manifests(['drop 10.1.0.0/16', 'accept 10.2.0.0/16']);
    await run('m');
    manifests(['drop 10.1.0.0/16']);
    await run('m');
    const undone = await run('undo', ...config);
    expect([undone.code, live()], undone.err).toEqual([0, ['accept 10.2.0.0/16', 'drop 10.1.0.0/16']]);
  });

  it('needs no base and no values, though the settings name them and ask for drift to be refused', async () => {
    manifests(['drop 10.1.0.0/16']);
    expect((await run('m')).code).toBe(0);
    world.write(
      'shared.yaml',
      'base: main\nvalues: [gone.yaml]\noverlay: gone\nfailOn: [drift]\nmaxDeletes: 100%\nallowEmpty: true\n',
    );
    const undone = await run('undo', '--yes', '--config', 'shared.yaml');
    expect([undone.code, live(), undone.out]).toEqual([0, [], expect.not.stringContaining('compared with')]);
    for (const word of ['drift', 'not-enforced']) {
      const refused = (await run('undo', '1', '--fail-on', word)).err;
      expect(refused).toMatch(/undo has no --fail-on drift, not-enforced\n.*it knows opens, closes and any/);
    }
    world.write('shared.yaml', 'failOn: [not-enforced]\n');
    expect((await run('undo', '1', '--dry-run', '--config', 'shared.yaml')).code).toBe(0);
  });

  it('says that without a home nothing is kept, where the server is named', async () => {
    const homeless = { HOME: '', XDG_STATE_HOME: '', CI: '' };
    const refused = await world.cli(['history'], { env: homeless });
    expect([refused.code, refused.err]).toEqual([
      1,
      expect.stringContaining('hint: give the --state-dir of the applies (in CI, or without HOME,'),
    ]);
  });

  it('holds to the scope: what lies outside of it now does not come back', async () => {
    world.write('settings.yaml', 'scope: {networks: [10.1.0.0/16]}\n');
    manifests(['drop 10.1.0.0/16', 'accept 10.2.0.0/16']);
    await run('m');
    manifests(['drop 10.1.0.0/16']);
    await run('m');
    const undone = await run('undo', '--config', join(world.folder, 'settings.yaml'));
    expect([undone.code, undone.err, live()]).toEqual([
      4,
      expect.stringContaining('The rule `web-r1` is outside the scope'),
      ['drop 10.1.0.0/16'],
    ]);
  });

  it('names what it leaves because it is outside the scope now', async () => {
    world.write('settings.yaml', 'scope: {networks: [10.1.0.0/16, 10.3.0.0/16], configuration: false}\n');
    manifests(['drop 10.1.0.0/16'], '{default_client_mtu: 1300}');
    await run('m');
    manifests(['drop 10.1.0.0/16', 'accept 10.2.0.0/16', 'drop 10.3.0.0/16'], '{default_client_mtu: 1400}');
    await run('m');
    const undone = await run('undo', '--config', join(world.folder, 'settings.yaml'));
    expect([undone.code, live()], undone.out + undone.err).toEqual([0, ['accept 10.2.0.0/16', 'drop 10.1.0.0/16']]);
    for (const what of ['the rule web/r1 (accept 10.2.0.0/16)', '`default_client_mtu`'])
      expect(undone.out).toContain(`Not undone: ${what} is outside the scope of the settings.`);
  });

  it('puts rules of users back, too', async () => {
    world.simulator.seed([{ action: 'accept', destination: '10.9.0.0/16', user_id: alice }]);
    manifests(['drop 10.1.0.0/16']);
    await run('m');
    expect(live()).toEqual(['drop 10.1.0.0/16']);
    expect((await run('undo')).code).toBe(0);
    expect(world.simulator.rules()).toMatchObject([{ destination: '10.9.0.0/16', user_id: alice }]);
  });

  it('threat 43: is refused at another server than the apply was made to', async () => {
    manifests(['drop 10.1.0.0/16', 'drop 10.2.0.0/16']);
    expect((await run('m')).code).toBe(0);
    manifests(['drop 10.1.0.0/16', 'drop 10.2.0.0/16', 'drop 10.3.0.0/16']);
    expect((await run('m')).code).toBe(0);
    const other = await startWorld();
    try {
      const elsewhere = ['--base-url', other.simulator.url];
      expect((await run('m', ...elsewhere, '--state-dir', other.folder)).code).toBe(0);
      const undone = await run('undo', ...elsewhere);
      expect([undone.code, undone.err]).toEqual([
        1,
        expect.stringContaining(`apply 2 was made to ${world.simulator.url}, and this is ${other.simulator.url}`),
      ]);
      expect(other.simulator.rules()).toHaveLength(3);
    } finally {
      await other.close();
    }
  });

  it('takes the flags of its guards and of every apply', async () => {
    manifests(['drop 10.1.0.0/16']);
    await run('m');
    world.write('token', `${token}\n`);
    world.write('settings.yaml', 'windows: [{kind: allow, schedule: "* * * * *", duration: 1h}]\n');
    const server = `--base-url ${world.simulator.url} --token-file token --allow-http --timeout 5s --profile firezone-0.7`;
    const guards =
      '--max-deletes 100% --allow-empty --allow-lockout --max-exposure any --approve 0123456789abcdef0123456789abcdef';
    const applies = '--yes --total-timeout 1m --concurrency 2 --pace 1000 --journal journal.jsonl --state-dir state';
    const common = '--config settings.yaml --output text --full --log-format text --verbose --no-color';
    const bound = ['--bind-secret', 'RECONCILE_SECRET_X=okta@idp.example'];
    const words = [...`${server} ${guards} ${applies} ${common}`.split(' ')];
    const planned = await run('undo', '--fail-on', 'closes', '--dry-run', ...words);
    expect(planned.code, planned.out + planned.err).toBe(0);
    expect((await run('undo', '--fail-on', 'opens', '--dry-run', ...words)).code).toBe(3);
    const refused = await run('undo', '--suspend', ...words);
    expect([refused.code, refused.out + refused.err]).toEqual([3, expect.not.stringContaining('undone-not-in-git')]);
    expect(refused.out + refused.err).toContain('Leave --suspend out. To see the changes only, add --dry-run.');
    const both = await run('undo', '--suspend', '--no-suspend', '--dry-run', ...words);
    expect([both.code, both.out + both.err]).toEqual([1, expect.stringContaining('exclude each other')]);
    expect(
      (
        await run(
          'undo',
          '--ca-file',
          'gone.pem',
          '--proxy',
          'env',
          '--override-window',
          'put back',
          ...bound,
          ...words,
        )
      ).err,
    ).toContain('gone.pem');
    expect(live()).toHaveLength(1);
    expect((await run('undo', ...words)).code).toBe(0);
    expect(live()).toEqual([]);
    const listing = [
      '--base-url',
      world.simulator.url,
      '--state-dir',
      'state',
      ...common.split(' ').filter((word) => word !== '--full'),
    ];
    expect((await run('history', ...listing)).out).toContain('1 deleted');
  });
});
