import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { configuration, startWorld, type World } from './harness.ts';

let world: World;
beforeEach(async () => {
  world = await startWorld();
});
afterEach(() => world.close());

interface Provider {
  readonly id?: string;
  readonly host?: string;
  readonly secret?: string;
}

const provider = ({ id = 'g', host = 'idp.example', secret = '{env: RECONCILE_SECRET_G}' }: Provider): string =>
  `\n  - {id: ${id}, label: G, client_id: c, client_secret: ${secret}, discovery_document_uri: "https://${host}/d", auto_create_users: false}`;
const write = (...providers: readonly Provider[]): void => {
  world.write('m/a.yaml', configuration(`openid_connect_providers:${providers.map(provider).join('')}`));
};
const secrets = { RECONCILE_SECRET_G: 'CANARY-g', RECONCILE_SECRET_H: 'CANARY-h' };
const bound = ['--bind-secret', 'RECONCILE_SECRET_G=g@idp.example'];
const stored = (): string => JSON.stringify(world.simulator.configuration()['openid_connect_providers']);

async function run(...args: readonly string[]): Promise<readonly [number, string]> {
  const { code, out, err } = await world.cli([...args, 'm'], { env: secrets });
  return [code, out + err];
}

describe('a secret of the operator', () => {
  it('is not sent for a provider that nobody bound it to: exit 3, with the line to add', async () => {
    write({});
    const line = '--bind-secret RECONCILE_SECRET_G=g@idp.example';
    expect(await run('--plan')).toEqual([3, expect.stringContaining(line)]);
    expect(await run('--yes')).toEqual([
      3,
      expect.stringContaining('`RECONCILE_SECRET_G` would be sent to idp.example'),
    ]);
    expect(stored()).toBe('[]');
    expect((await run('--yes', ...bound))[0]).toBe(0);
    expect(stored()).toContain('CANARY-g');
  });

  it('is not sent where one commit creates the provider with a literal secret and the next names the operator’s', async () => {
    write({ id: 'evil', host: 'evil.example', secret: 'attackers-own' });
    expect((await run('--yes'))[0]).toBe(0);
    write({ id: 'evil', host: 'evil.example' });
    expect(await run('--yes')).toEqual([3, expect.stringContaining('would be sent to evil.example')]);
    expect(stored()).not.toContain('CANARY');
  });

  it.each<[string, Provider]>([
    ['another host', { host: 'evil.example' }],
    ['another port', { host: 'idp.example:8443' }],
    ['another provider', { id: 'h' }],
    ['another secret', { secret: '{env: RECONCILE_SECRET_H}' }],
  ])('is not bound to %s by a binding of its own', async (_, changed) => {
    write(changed);
    expect((await run('--yes', ...bound))[0]).toBe(3);
    expect(stored()).toBe('[]');
  });

  it('needs no binding where the live provider with this id and host holds it already', async () => {
    write({});
    expect((await run('--yes', ...bound))[0]).toBe(0);
    write({}, { id: 'h', host: 'other.example', secret: 'literal' });
    expect((await run('--yes'))[0]).toBe(0);
    write({ host: 'evil.example' });
    expect(await run('--yes')).toEqual([3, expect.stringContaining('would be sent to evil.example')]);
  });

  it('needs none after a rotation where the record of the last apply has this name, id and host', async () => {
    write({});
    const state = ['--state-dir', join(world.folder, 'state')];
    expect((await run('--yes', ...bound, ...state))[0]).toBe(0);
    const env = { ...secrets, RECONCILE_SECRET_G: 'CANARY-rotated' };
    expect((await world.cli(['--yes', 'm'], { env })).code).toBe(3);
    expect((await world.cli(['--yes', ...state, 'm'], { env })).code).toBe(0);
    expect(stored()).toContain('CANARY-rotated');
  });

  it('leaves no record where it was not known, so that it is not sent once it is', async () => {
    const state = ['--state-dir', join(world.folder, 'state')];
    write({ id: 'evil', host: 'evil.example', secret: 'attackers-own' });
    expect((await run('--yes', ...state))[0]).toBe(0);
    write({ id: 'evil', host: 'evil.example' });
    expect((await world.cli(['--yes', ...state, 'm'])).code).toBe(0);
    expect((await run('--yes', ...state))[0]).toBe(3);
    expect(stored()).not.toContain('CANARY');
  });

  it('threat 42: is not sent by a second commit, after a first that another, unknown secret kept from being sent', async () => {
    const state = ['--state-dir', join(world.folder, 'state')];
    const nothing = { id: 'n', host: 'n.example', secret: '{env: RECONCILE_SECRET_NOBODY_SET}' };
    write({ id: 'evil', host: 'evil.example' }, nothing);
    await run('--yes', ...state);
    write({ id: 'evil', host: 'evil.example' });
    expect((await run('--yes', ...state))[0]).toBe(3);
    expect(stored()).not.toContain('CANARY');
  });

  it('is asked about on a terminal, by its name, provider and host, and --yes does not answer', async () => {
    write({});
    const no = await world.cli(['m'], { env: secrets, answer: 'n' });
    expect([no.code, no.err]).toEqual([
      3,
      expect.stringContaining('Send the secret RECONCILE_SECRET_G to idp.example, for the provider g? [y/N]'),
    ]);
    const unasked = await world.cli(['--yes', 'm'], { env: secrets, answer: 'y' });
    expect([unasked.code, unasked.err]).toEqual([3, expect.not.stringContaining('Send the secret')]);
    expect(stored()).toBe('[]');
    const yes = await world.cli(['m'], { env: secrets, answer: 'y' });
    expect([yes.code, yes.err]).toEqual([0, expect.stringMatching(/Send the secret[\s\S]*Apply /)]);
    expect(stored()).toContain('CANARY-g');
  });

  it('is bound in the settings too, and a sidecar without is Refused', async () => {
    write({});
    const watch = ['--watch', '--once', '--listen', '127.0.0.1:0', '--quiet', '1ms', '--delete-quiet', '1ms'];
    expect(await run(...watch)).toEqual([3, expect.stringContaining('Refused')]);
    world.write('s.yaml', 'secrets: {bind: [{name: RECONCILE_SECRET_G, provider: g, host: idp.example}]}\n');
    expect((await run(...watch, '--config', 's.yaml'))[0]).toBe(0);
    expect(stored()).toContain('CANARY-g');
  });

  it('needs none in a sidecar that starts again after a rotation, and none holds that was not sent before', async () => {
    const watch = ['--watch', '--once', '--listen', '127.0.0.1:0', '--quiet', '1ms', '--delete-quiet', '1ms'];
    const state = ['--state-dir', join(world.folder, 'state')];
    const env = { ...secrets, RECONCILE_SECRET_G: 'CANARY-rotated' };
    write({});
    expect((await run(...watch, ...state, ...bound))[0]).toBe(0);
    const restarted = await world.cli([...watch, ...state, 'm'], { env });
    expect([restarted.code, restarted.err]).toEqual([0, expect.any(String)]);
    expect(stored()).toContain('CANARY-rotated');
    // A new revision, of which no process saw the one before.
    write({}, { id: 'h', host: 'other.example', secret: 'literal' });
    expect((await world.cli([...watch, ...state, 'm'], { env: secrets })).code).toBe(0);
    expect(stored()).toContain('CANARY-g');
    write({}, { id: 'h', host: 'other.example', secret: '{env: RECONCILE_SECRET_H}' });
    expect((await world.cli([...watch, ...state, 'm'], { env })).code).toBe(3);
    expect(stored()).not.toContain('CANARY-h');
  });

  it('whose value is not known here is a warning in the plan where provider or host are new, and no refusal', async () => {
    write({});
    const plan = await world.cli(['--plan', '--output', 'json', 'm']);
    expect([plan.code, plan.json().refusals]).toEqual([0, []]);
    expect(plan.json().problems).toContainEqual(
      expect.objectContaining({ code: 'unbound-secret', severity: 'warning', file: 'a.yaml' }),
    );
    const known = await world.cli(['--plan', '--output', 'json', ...bound, 'm']);
    expect(known.json().problems.map(({ code }) => code)).not.toContain('unbound-secret');
  });

  it('goes where the example settings of an operator bind it to, and nowhere else', async () => {
    const config = new URL('../../examples/operator/settings.yaml', import.meta.url).pathname;
    const env = { GOOGLE_CLIENT_SECRET: 'CANARY-google' };
    const google = { id: 'google', secret: '{env: GOOGLE_CLIENT_SECRET}' };
    write({ ...google, host: 'evil.example' });
    expect((await world.cli(['--yes', '--config', config, 'm'], { env })).code).toBe(3);
    write({ ...google, host: 'accounts.google.com' });
    const run = await world.cli(['--yes', '--config', config, 'm'], { env });
    expect([run.code, run.err]).toEqual([0, expect.any(String)]);
    expect(stored()).toContain('CANARY-google');
  });

  it.each([
    ['a backslash, where readers of URLs differ', 'https://idp.example\\\\@evil.example/d', 4],
    ['user information', 'https://idp.example@evil.example/d', 4],
    ['two of them', 'https://x@evil.example@idp.example/d', 4],
    ['a host that is written in other letters', 'https://ıdp.example/d', 4],
    ['an escaped host', 'https://%69dp.example/d', 4],
    ['a dot at the end', 'https://idp.example./d', 3],
    ['the same host without TLS', 'http://idp.example/d', 3],
  ])('threat 42: is not sent to %s', async (_, uri, exit) => {
    world.write(
      'm/a.yaml',
      configuration(
        `openid_connect_providers:\n  - {id: g, label: G, client_id: c, client_secret: {env: RECONCILE_SECRET_G}, discovery_document_uri: "${uri}", auto_create_users: false}`,
      ),
    );
    expect((await run('--yes', ...bound))[0]).toBe(exit);
    expect(stored()).toBe('[]');
  });

  it('threat 42: is not sent by an undo to a former provider whose id gives its name', async () => {
    const state = ['--state-dir', join(world.folder, 'state')];
    write({ id: 'Okta', host: 'evil.example', secret: 'attackers-own' });
    expect((await run('--yes', ...state))[0]).toBe(0);
    world.write('m/a.yaml', configuration('openid_connect_providers: []'));
    expect((await run('--yes', ...state))[0]).toBe(0);
    const env = { RECONCILE_SECRET_OIDC_OKTA: 'CANARY-okta' };
    const undone = await world.cli(['undo', '--yes', ...state], { env });
    expect([undone.code, undone.out + undone.err]).toEqual([
      3,
      expect.stringContaining('--bind-secret RECONCILE_SECRET_OIDC_OKTA=Okta@evil.example'),
    ]);
    expect(stored()).toBe('[]');
  });

  it('a binding that cannot be read is said', async () => {
    write({});
    expect(await run('--plan', '--bind-secret', 'x')).toEqual([1, expect.stringContaining('NAME=PROVIDER@HOST')]);
  });
});
