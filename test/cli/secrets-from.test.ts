import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readSecrets } from '../../src/cli/secrets-from.ts';
import { ensureBuilt, makeWorld, rules, startSidecar } from '../controller/support/sidecar.ts';
import { configuration, rule, startWorld, token, type World } from './harness.ts';

describe('what a command of secretsFrom may print', () => {
  it.each([
    ['{"RECONCILE_TOKEN": "a", "B": "c d"}', { RECONCILE_TOKEN: 'a', B: 'c d' }],
    [
      '# made by hand\nexport A=1\r\n\nB="x\\ny \\"z\\""\nC=\'$HOME\\n\'\nD=a=b',
      { A: '1', B: 'x\ny "z"', C: '$HOME\\n', D: 'a=b' },
    ],
    ['{"A": 1}', null],
    ['{"A": {"B": "c"}}', null],
    ['{"A"', null],
    ['not a secret', null],
  ])('%j', (text, secrets) => {
    const read = readSecrets(text);
    expect(read === null ? null : Object.fromEntries(read)).toEqual(secrets);
  });
});

describe('secretsFrom in the settings', () => {
  let world: World;
  beforeEach(async () => {
    world = await startWorld();
    world.write('m/a.yaml', rule('a', 'action: drop, destination: 10.0.0.0/8'));
  });
  afterEach(() => world.close());

  /** Settings whose command runs this script of Node. */
  const settings = (script: string): void => {
    world.write('secrets.mjs', script);
    world.write('settings.yaml', `secretsFrom: [${JSON.stringify(process.execPath)}, secrets.mjs]\n`);
  };
  const run = (args: readonly string[], env = {}) =>
    world.cli([...args, '--config', 'settings.yaml', 'm'], { env: { RECONCILE_TOKEN: '', ...env } });

  it('the API token and a client secret come from it, and nothing else does', async () => {
    const secrets = {
      RECONCILE_TOKEN: token,
      RECONCILE_SECRET_G: 'CANARY-client',
      RECONCILE_SUSPEND: 'true',
    };
    settings(`process.stdout.write(${JSON.stringify(JSON.stringify(secrets))})`);
    world.write(
      'm/configuration.yaml',
      configuration(`openid_connect_providers:
  - {id: g, label: G, client_id: c, client_secret: {env: RECONCILE_SECRET_G}, discovery_document_uri: "https://idp.example/d", auto_create_users: false}`),
    );
    const applied = await run(['apply', '--bind-secret', 'RECONCILE_SECRET_G=g@idp.example', '--verbose']);
    expect([applied.code, applied.err]).toEqual([0, expect.any(String)]);
    expect(JSON.stringify(world.simulator.configuration())).toContain('CANARY-client');
    expect(applied.out + applied.err).not.toContain('CANARY');
  });

  it('a variable of the environment wins over it', async () => {
    settings("console.log('RECONCILE_TOKEN=wrong')");
    expect((await run(['plan'])).code).toBe(1);
    expect((await run(['plan'], { RECONCILE_TOKEN: token })).code).toBe(0);
  });

  it('its own secrets are not given to it', async () => {
    settings(
      "console.log(process.env.RECONCILE_TOKEN === undefined ? 'RECONCILE_TOKEN=' + process.env.GIVEN : 'RECONCILE_TOKEN=no')",
    );
    expect((await run(['plan'], { GIVEN: token })).code).toBe(0);
    settings(`console.log('RECONCILE_SECRET_A=' + (process.env.RECONCILE_TOKEN ?? ''))`);
    expect((await run(['plan'], { RECONCILE_TOKEN: token })).code).toBe(0);
  });

  it.each([
    ['process.stdout.write("CANARY"); console.error("CANARY"); process.exit(3)', 'ended with 3'],
    ['console.log("CANARY not a secret")', 'neither a JSON object'],
    ['console.log("CANARY=1")', 'no secret by a known name'],
    ['process.stdout.write("RECONCILE_TOKEN=" + "CANARY".repeat(200000))', 'printed more than'],
  ])('%s: says what is wrong and nothing of what it printed', async (script, reason) => {
    settings(script);
    const failed = await run(['plan', '--verbose']);
    expect([failed.code, failed.err]).toEqual([1, expect.stringContaining(reason)]);
    expect(failed.err).toContain('settings.yaml:1');
    expect(failed.out + failed.err).not.toContain('CANARY');
  });

  it('a program that is not there is said; what needs no server does not ask for it', async () => {
    world.write('settings.yaml', 'secretsFrom: [./no-such-program]\n');
    expect((await run(['plan'])).err).toContain('cannot be started');
    expect((await run(['validate'])).code).toBe(0);
    world.write('settings.yaml', 'secretsFrom: sops\n');
    expect((await run(['validate'])).err).toContain('secretsFrom');
  });
});

describe('a sidecar', () => {
  it('takes a rotated token from the command without a restart (long)', async () => {
    ensureBuilt();
    const world = await makeWorld();
    const secret = path.join(world.folder, 'secret.env');
    const config = path.join(world.folder, 'settings.yaml');
    writeFileSync(path.join(world.manifests, 'a.yaml'), rules('10.0.0.0/8'));
    writeFileSync(secret, 'RECONCILE_TOKEN=canary-expired-token\n');
    writeFileSync(config, `baseUrl: ${world.sim.url}\nsecretsFrom: [cat, secret.env]\ninterval: 1s\n`);
    const sidecar = await startSidecar({ ...world, tokenFile: '' }, [world.manifests, '--config', config]);
    try {
      await sidecar.until(({ conditions }) => conditions.Ready.status === 'False');
      writeFileSync(secret, 'nothing that is a secret\n');
      await expect.poll(() => sidecar.output(), { timeout: 30_000 }).toContain('could not be renewed');
      writeFileSync(secret, 'RECONCILE_TOKEN=canary-api-token\n');
      await sidecar.until(({ conditions }) => conditions.Ready.status === 'True');
      expect(world.live()).toEqual(['10.0.0.0/8']);
      expect(sidecar.output()).toContain('The API token was renewed');
      expect(sidecar.output()).not.toContain('canary-');
    } finally {
      await sidecar.stop();
      await world.close();
    }
  });
});
