import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { configuration, ended, rule, spawnReconcile, startWorld, token, type World } from './cli/harness.ts';

/** Marked values; the SAML metadata holds its mark in the middle of a document, as a certificate would be. */
const marks = { client: 'CANARY/client "secret"&é', saml: 'CANARY-metadata+key', stored: 'CANARY=stored' };
const metadata = (mark: string): string =>
  `<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://idp.example/x"><!-- ${mark} --></md:EntityDescriptor>`;

/** As written, URL-encoded, base64 in any alignment, JSON-escaped once and twice. */
function forms(secret: string): readonly string[] {
  const aligned = [0, 1, 2].map((shift) => {
    const bytes = Buffer.concat([Buffer.alloc(shift), Buffer.from(secret)]);
    return bytes.toString('base64').slice(shift === 0 ? 0 : 4, -4);
  });
  const json = JSON.stringify(secret).slice(1, -1);
  return [secret, encodeURIComponent(secret), ...aligned, json, JSON.stringify(json).slice(1, -1)];
}

let world: World;
beforeEach(async () => {
  world = await startWorld();
  const providers = {
    openid_connect_providers: [
      {
        id: 'g',
        label: 'G',
        client_id: 'c',
        client_secret: marks.stored,
        discovery_document_uri: 'https://idp.example/d',
        auto_create_users: false,
      },
    ],
    saml_identity_providers: [{ id: 's', label: 'S', metadata: metadata(marks.stored), auto_create_users: false }],
  };
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json', accept: 'application/json' };
  const answer = await fetch(`${world.simulator.url}/v0/configuration`, {
    method: 'PATCH',
    headers,
    body: JSON.stringify({ configuration: providers }),
  });
  expect(answer.status).toBe(200);
  world.write('m/rules.yaml', rule('a', 'action: drop, destination: 10.0.0.0/8'));
  world.write('m/saml.xml', metadata(marks.saml));
  world.write(
    'm/configuration.yaml',
    configuration(`openid_connect_providers:
  - {id: g, label: G, client_id: c, client_secret: {env: RECONCILE_SECRET_G}, discovery_document_uri: "https://idp.example/d", auto_create_users: false}
saml_identity_providers:
  - {id: s, label: S, metadata: {file: saml.xml}, auto_create_users: false}`),
  );
});
afterEach(() => world.close());

/** Runs the built command and looks for every mark in what it says and in every file that it leaves. */
async function quietly(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<number | null> {
  const run = await ended(
    spawnReconcile(args, {
      cwd: world.folder,
      env: {
        RECONCILE_BASE_URL: world.simulator.url,
        RECONCILE_TOKEN: token,
        RECONCILE_YES: 'true',
        RECONCILE_SECRET_G: marks.client,
        RECONCILE_BIND_SECRET: 'RECONCILE_SECRET_G=g@idp.example',
        ...env,
      },
    }),
  );
  const files = readdirSync(world.folder, { recursive: true, encoding: 'utf8' })
    .filter(
      (file) => file !== 'm/saml.xml' && !file.startsWith('exported/') && statSync(join(world.folder, file)).isFile(),
    )
    .map((file) => readFileSync(join(world.folder, file), 'utf8'));
  for (const secret of [...Object.values(marks), token]) {
    for (const form of forms(secret)) {
      for (const text of [run.out, run.err, ...files])
        expect(text.includes(form), `${args.join(' ')} leaks ${form}`).toBe(false);
    }
  }
  return run.code;
}

describe('threats 11 to 14: the built command shows no secret, of either side, in any form', () => {
  it('from the first plan to the applied one, in every output at once', async () => {
    const everywhere = [
      '--output',
      'markdown=plan.md',
      '--output',
      'json=plan.json',
      '--output',
      'github',
      '--verbose',
      '--log-format',
      'json',
    ];
    expect(await quietly(['validate', 'm'])).toBe(0);
    expect(await quietly(['--plan', ...everywhere, '--save', 'saved.json', 'm'])).toBe(0);
    expect(await quietly(['snapshot', '--out', 'live.json'])).toBe(0);
    expect(await quietly(['--plan', '--live', 'live.json', ...everywhere, 'm'], { RECONCILE_TOKEN: '' })).toBe(0);
    expect(await quietly(['doctor', '--output', 'json'])).toBe(0);
    expect(await quietly(['drift', '--output', 'json', 'm'])).toBe(2);
    expect(await quietly(['build', 'm'])).toBe(0);
    expect(await quietly(['apply', 'saved.json', 'm', '--journal', 'journal.jsonl', ...everywhere])).toBe(0);
    expect(JSON.stringify(world.simulator.configuration())).toContain(marks.saml);
    expect(await quietly(['--plan', '--detailed-exitcode', 'm'])).toBe(0);
  });

  it('when the server refuses, echoes, tears or hangs up (long)', async () => {
    const echo = JSON.stringify({ errors: { saml_identity_providers: [{ metadata: [marks.saml] }] }, sent: marks });
    const page = `<html>${Object.values(marks).join(' ')}</html>`;
    const faults = [
      { kind: 'status', status: 422, body: echo },
      { kind: 'status', status: 500, body: page },
      { kind: 'status', status: 401, body: JSON.stringify({ errors: { auth: marks.client } }) },
      { kind: 'torn' },
      { kind: 'reset-after' },
    ] as const;
    for (const fault of faults) {
      world.simulator.faults.clear();
      world.simulator.faults.inject({ match: { method: 'PATCH', path: '/v0/configuration', times: 8 }, fault });
      expect(await quietly(['m', '--output', 'json', '--verbose', '--timeout', '2s'])).not.toBeNull();
    }
  });

  it('when the answer to a read is a page that holds one (long)', async () => {
    world.simulator.faults.inject({
      fault: {
        kind: 'status',
        status: 200,
        body: `<html>${marks.stored}</html>`,
        headers: { 'content-type': 'text/html' },
      },
    });
    for (const args of [['--plan', 'm'], ['snapshot'], ['doctor'], ['drift', 'm'], ['export', '--out', 'exported']])
      expect(await quietly(args)).toBe(1);
  });

  it('in wrong settings and wrong usage', async () => {
    world.write('settings.yaml', 'token: [abc, def]\nbaseUrl: [1, 2]\n');
    expect(await quietly(['--plan', '--config', 'settings.yaml', 'm'])).toBe(1);
    expect(await quietly(['--plan', '--base-url', `https://user:${encodeURIComponent('pw')}@127.0.0.1`, 'm'])).toBe(1);
  });
});
