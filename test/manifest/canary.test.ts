import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Simulator, startSimulator } from '../../src/simulator/server.ts';
import { type CliRun, type Workspace, workspace } from './cli.ts';

const canary = 'CANARY7c"1&é';
const old = 'CANARYold/88';
const token = 'CANARYtoken.x';

/** As written, URL-encoded, base64 (any alignment would show the middle), JSON-escaped. */
const forms = [canary, old, token].flatMap((secret) => [
  secret,
  encodeURIComponent(secret),
  Buffer.from(secret).toString('base64').replace(/=+$/, '').slice(0, -2),
  JSON.stringify(secret).slice(1, -1),
  JSON.stringify(JSON.stringify(secret)).slice(3, -3),
]);

let simulator: Simulator;
let place: Workspace;

beforeEach(async () => {
  simulator = await startSimulator({ token });
  place = workspace({
    RECONCILE_TOKEN: token,
    RECONCILE_BASE_URL: simulator.url,
    RECONCILE_SECRET_G: canary,
    RECONCILE_BIND_SECRET: 'RECONCILE_SECRET_G=google@idp.example',
  });
  mkdirSync(path.join(place.directory, 'm'));
  const body = JSON.stringify({ configuration: { openid_connect_providers: [{ ...provider, client_secret: old }] } });
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json', accept: 'application/json' };
  expect((await fetch(`${simulator.url}/v0/configuration`, { method: 'PATCH', headers, body })).status).toBe(200);
});

afterEach(async () => {
  place.remove();
  await simulator.close();
});

const provider = {
  id: 'google',
  label: 'Google',
  client_id: 'cid',
  discovery_document_uri: 'https://idp.example/x',
  auto_create_users: false,
};

/** A Configuration with this text for the client secret, and a rule set. */
function manifest(secret: string): string {
  return `apiVersion: firezone/v0
kind: Configuration
metadata: {name: main}
spec:
  openid_connect_providers:
    - id: google
      label: Google
      client_id: cid
      client_secret: ${secret}
      discovery_document_uri: https://idp.example/x
      auto_create_users: false
---
apiVersion: firezone/v0
kind: RuleSet
metadata: {name: none}
spec: {rules: []}
`;
}

const literal = JSON.stringify(canary);

function expectSilence(run: CliRun): void {
  for (const form of forms) expect(run.stdout + run.stderr).not.toContain(form);
}

/** Every file that a command wrote, the manifests aside. */
function filesWritten(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => !file.startsWith('m/') && statSync(path.join(folder, file)).isFile())
    .map((file) => readFileSync(path.join(folder, file), 'utf8'));
}

const commands: readonly (readonly string[])[] = [
  ['validate', 'm'],
  ['build', 'm'],
  ['fmt', '--check', 'm'],
  ['test', 'm'],
  ['--plan', 'm', '--verbose'],
  ['--plan', 'm', '--output', 'json'],
  ['--plan', 'm', '--output', 'markdown'],
  ['--plan', 'm', '--output', 'github'],
  ['--plan', 'm', '--log-format', 'json', '--verbose'],
  ['--plan', 'm', '--save', 'saved.json'],
  ['snapshot', '--out', 'live.json'],
  ['doctor'],
  ['drift', 'm'],
  ['export'],
  ['export', '--out', 'out'],
  ['explain', 'm', '--destination', '10.0.0.1', '--protocol', 'tcp', '--port', '80'],
  ['m', '--yes', '--journal', 'journal.jsonl', '--verbose'],
  ['m', '--yes', '--output', 'json'],
];

describe('rows 11, 12 and 14: no secret on either side is shown by any command', () => {
  it.each(commands)('%s %s %s %s', async (...argv) => {
    writeFileSync(path.join(place.directory, 'm/a.yaml'), manifest(literal));
    expectSilence(await place.run(...argv));
    writeFileSync(path.join(place.directory, 'm/a.yaml'), manifest('{env: RECONCILE_SECRET_G}'));
    expectSilence(await place.run(...argv));
    for (const text of filesWritten(place.directory)) for (const form of forms) expect(text).not.toContain(form);
  });

  it('says that the secret changes, without saying what it is', async () => {
    writeFileSync(path.join(place.directory, 'm/a.yaml'), manifest('{env: RECONCILE_SECRET_G}'));
    const plan = await place.run('--plan', 'm', '--detailed-exitcode');
    expect(plan.code).toBe(2);
    expect(plan.stdout).toContain('changed');
    expect((await place.run('--yes', 'm')).code).toBe(0);
    expect(JSON.stringify(simulator.configuration())).toContain(JSON.stringify(canary).slice(1, -1));
    expect((await place.run('--plan', 'm', '--detailed-exitcode')).code).toBe(0);
  });

  it('plans without the secret, as unknown, and writes nothing because of it', async () => {
    const other = workspace({ RECONCILE_TOKEN: token, RECONCILE_BASE_URL: simulator.url });
    mkdirSync(path.join(other.directory, 'm'));
    writeFileSync(path.join(other.directory, 'm/a.yaml'), manifest('{env: RECONCILE_SECRET_G}'));
    const plan = await other.run('--plan', 'm', '--detailed-exitcode');
    expect(plan.code, plan.stdout + plan.stderr).toBe(0);
    expect(plan.stdout).toContain('unknown-secret');
    expect((await other.run('m')).code).toBe(0);
    other.remove();
    expect(simulator.requests().filter(({ method }) => method !== 'GET')).toHaveLength(1);
  });
});

describe('row 12: no error path shows a secret', () => {
  const damages: readonly (readonly [string, string])[] = [
    ['a bad indentation', manifest(literal).replace('      client_id', '     client_id')],
    ['an unknown tag', manifest(`!x ${literal}`)],
    ['a misspelt field', manifest(literal).replace('client_secret', 'client_secert')],
    ['a list', manifest(`[${literal}]`)],
    ['a mapping', manifest(`{${literal}: 1}`)],
    ['a reference that is not allowed', manifest('{env: RECONCILE_TOKEN}')],
    ['a file that is not allowed', manifest('{file: /proc/self/environ}')],
    ['an open quote', manifest(`"${canary.replaceAll('"', '')}`)],
    ['an error beside it', manifest(literal).replace('https://idp.example/x', 'nowhere')],
  ];

  it.each(damages)('%s', async (_, text) => {
    writeFileSync(path.join(place.directory, 'm/a.yaml'), text);
    for (const argv of [
      ['validate', 'm'],
      ['--plan', 'm'],
      ['--plan', 'm', '--output', 'json'],
      ['build', 'm'],
      ['fmt', 'm'],
      ['m', '--yes'],
    ]) {
      const run = await place.run(...argv);
      // fmt resolves nothing, so a reference is none of its business.
      if (argv[0] !== 'fmt') expect(run.code).toBe(4);
      expectSilence(run);
    }
  });

  it('a server that refuses the change and echoes the body', async () => {
    writeFileSync(path.join(place.directory, 'm/a.yaml'), manifest(literal));
    const echo = { errors: { openid_connect_providers: [{ client_secret: [`${canary} is bad`] }] }, sent: canary };
    simulator.faults.inject({
      match: { method: 'PATCH', path: '/v0/configuration' },
      fault: { kind: 'status', status: 422, body: JSON.stringify(echo) },
    });
    const run = await place.run('m', '--yes', '--output', 'json', '--verbose');
    expect(run.code).not.toBe(0);
    expectSilence(run);
  });
});
