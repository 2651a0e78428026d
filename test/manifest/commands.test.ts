import { readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Simulator, startSimulator } from '../../src/simulator/server.ts';
import { document } from '../desired/helpers.ts';
import { type Workspace, workspace } from './cli.ts';

const alice = 'a1520c4b-adc3-4574-932a-94461cf85c07';
const metadata =
  '<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://idp.example/x"/>';

let simulator: Simulator;
let place: Workspace;

beforeEach(async () => {
  simulator = await startSimulator({
    token: 'test-token',
    users: [{ name: 'alice', id: alice, email: 'alice@example.com' }],
  });
  place = workspace({ RECONCILE_TOKEN: 'test-token', RECONCILE_BASE_URL: simulator.url });
});

afterEach(async () => {
  place.remove();
  await simulator.close();
});

function write(name: string, text: string): void {
  writeFileSync(path.join(place.directory, name), text);
}

function read(name: string): string {
  return readFileSync(path.join(place.directory, name), 'utf8');
}

/** Two rules and one provider of each kind, made by hand on the server. */
async function fillServer(): Promise<void> {
  simulator.seed([
    { action: 'accept', destination: '10.0.0.1/8', port_type: 'tcp', port_range: '443', user_id: alice },
    { action: 'drop', destination: '2001:db8::/32' },
  ]);
  const configuration = {
    local_auth_enabled: false,
    openid_connect_providers: [
      {
        id: 'google',
        label: 'Google',
        client_id: 'cid',
        client_secret: 'CANARY-secret',
        discovery_document_uri: 'https://idp.example/.well-known/openid-configuration',
        auto_create_users: false,
      },
    ],
    saml_identity_providers: [{ id: 'okta', label: 'Okta', metadata, auto_create_users: true }],
  };
  const answer = await fetch(`${simulator.url}/v0/configuration`, {
    method: 'PATCH',
    headers: { authorization: 'Bearer test-token', 'content-type': 'application/json', accept: 'application/json' },
    body: JSON.stringify({ configuration }),
  });
  expect(answer.status).toBe(200);
}

describe('reconcile export', () => {
  it('writes files whose plan is empty, without a secret, and the same ones again', async () => {
    await fillServer();
    const first = await place.run('export', '--out', 'manifests');
    expect(first).toMatchObject({ code: 0 });
    expect(first.stderr).toContain('RECONCILE_SECRET_OIDC_GOOGLE');
    const files = readdirSync(path.join(place.directory, 'manifests'), { recursive: true, encoding: 'utf8' }).sort();
    expect(files).toEqual([
      '.firezone-manifest.schema.json',
      'configuration.yaml',
      'rules',
      'rules/alice@example.com.yaml',
      'rules/everyone.yaml',
      'saml',
      'saml/okta.xml',
    ]);
    expect(read('manifests/configuration.yaml')).toMatch(/^# yaml-language-server: \$schema=\.firezone-manifest/);
    expect(read('manifests/rules/everyone.yaml')).toMatch(
      /^# yaml-language-server: \$schema=\.\.\/\.firezone-manifest/,
    );
    expect(JSON.parse(read('manifests/.firezone-manifest.schema.json'))).toMatchObject({ title: 'Firezone manifest' });
    const texts = () => files.filter((file) => /\.\w+$/.test(file)).map((file) => read(`manifests/${file}`));
    const before = texts();
    expect(before.join() + first.stdout + first.stderr).not.toContain('CANARY');
    const plan = await place.run('--plan', 'manifests', '--detailed-exitcode');
    expect(plan.code, plan.stdout + plan.stderr).toBe(0);
    expect((await place.run('export', '--out', 'manifests')).code).toBe(0);
    expect(texts()).toEqual(before);
    expect((await place.run('fmt', '--check', 'manifests')).code).toBe(0);
    expect(simulator.requests().every(({ method }) => method !== 'POST' && method !== 'DELETE')).toBe(true);
  });

  it('fmt leaves values beside environments alone, and refuses what is named and no manifest', async () => {
    write('values.yaml', 'net: 10.0.0.0/8\n');
    write(
      'rule.yaml',
      'apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: a}\nspec: {action: drop, destination: 10.0.0.0/8}\n',
    );
    const said = await place.run('fmt', '--check', '.');
    expect([said.code, said.stderr]).toEqual([0, expect.not.stringContaining('values.yaml')]);
    expect((await place.run('fmt', '--check', 'values.yaml')).code).toBe(4);
  });

  it('names manifests of the directory that it did not write: a plan would count them too', async () => {
    await fillServer();
    expect((await place.run('export', '--out', 'manifests')).stderr).not.toContain('other-manifests');
    write('manifests/rules/gone@example.com.yaml', '# of an earlier export\n');
    write('manifests/notes.txt', 'x\n');
    const again = await place.run('export', '--out', 'manifests');
    expect(again.code).toBe(0);
    expect(again.stderr).toContain('[other-manifests]');
    expect(again.stderr).toContain('1 manifest that this export did not write: rules/gone@example.com.yaml.');
  });

  it('does not overwrite what a person wrote, unless told to', async () => {
    await fillServer();
    await place.run('export', '--out', 'manifests');
    write('manifests/rules/everyone.yaml', '# mine\n');
    const again = await place.run('export', '--out', 'manifests');
    expect(again.code).toBe(1);
    expect(again.stderr).toContain('would be overwritten');
    expect(read('manifests/rules/everyone.yaml')).toBe('# mine\n');
    expect((await place.run('export', '--out', 'manifests', '--force')).code).toBe(0);
    expect(read('manifests/rules/everyone.yaml')).toContain('2001:db8::/32');
  });

  it.each(['/proc/nowhere/deeper', '/proc/self/environ/x', 'file/below'])(
    'says that it cannot write to %s',
    async (out) => {
      write('file', '');
      const run = await place.run('export', '--out', out);
      expect(run.code).toBe(1);
      expect(run.stderr).toMatch(/^error \[output\] .*configuration\.yaml cannot be written/);
    },
  );

  it('writes rules of users who are gone by their id, and a plan of them is empty', async () => {
    const gone = 'b9692cfa-f429-4ea6-947f-ad22d40fd18b';
    simulator.seed([
      { action: 'drop', destination: '10.0.0.0/8', user_id: gone },
      { action: 'drop', destination: '10.0.0.0/8', user_id: alice },
    ]);
    expect((await place.run('export', '--out', 'manifests')).code).toBe(0);
    const plan = await place.run('--plan', 'manifests', '--detailed-exitcode');
    expect(plan.code, plan.stdout + plan.stderr).toBe(0);
    const more = document('Rule', 'more', `{action: drop, destination: 192.0.2.1, user_id: ${gone}}`);
    write('manifests/more.yaml', more);
    const refused = await place.run('--plan', 'manifests');
    expect([refused.code, refused.stderr]).toEqual([4, expect.stringContaining('more.yaml:4:')]);
    expect(refused.stderr).toContain('[unknown-user-id]');
  });

  it('writes a rule once that another server holds twice, and says so', async () => {
    const other = await startSimulator({ token: 'test-token', overlapConstraints: false });
    other.seed(['10.1.2.3/8', '10.0.0.0/8', '10.1.0.0/16'].map((destination) => ({ destination })));
    const server = ['--base-url', other.url, '--profile', 'generic'];
    const run = await place.run('export', '--out', 'manifests', ...server);
    expect([run.code, run.stderr]).toEqual([0, expect.stringContaining('[live-duplicates]')]);
    const plan = await place.run('--plan', 'manifests', ...server);
    await other.close();
    expect([plan.code, plan.stdout]).toEqual([0, expect.stringContaining('1 to delete, 3 unchanged')]);
    expect(plan.stdout).toContain('a second copy of the same rule');
  });

  it('can be only the rules, on stdout', async () => {
    await fillServer();
    const rules = await place.run('export', '--rules-only');
    expect(rules.stdout).toContain('user: alice@example.com');
    expect(rules.stdout).not.toContain('Configuration');
  });

  it('says what is wrong with the token', async () => {
    const other = workspace({ RECONCILE_TOKEN: 'wrong', RECONCILE_BASE_URL: simulator.url });
    const run = await other.run('export');
    other.remove();
    expect(run.code).toBe(1);
    expect(run.stdout).toBe('');
    expect(run.stderr).toContain('401');
  });
});

describe('--values', () => {
  it('says that a file is not UTF-8', async () => {
    write('m.yaml', document('Rule', 'web', '{action: drop, destination: 10.0.0.1}'));
    writeFileSync(path.join(place.directory, 'values'), Buffer.from('net: 10.0.0.1 # caf\xe9\n', 'latin1'));
    const run = await place.run('validate', '.', '--values', 'values');
    expect([run.code, run.stdout + run.stderr]).toEqual([1, expect.stringContaining('is not UTF-8 text')]);
  });
});

describe('reconcile build', () => {
  it('prints resolved manifests on stdout, and problems on stderr', async () => {
    write(
      'a.yaml',
      document(
        'RuleSet',
        's',
        '{rules: [{name: r, action: drop, destinations: [10.0.0.1, 10.0.0.0/8], user: alice@example.com}]}',
      ),
    );
    const run = await place.run('build', '.');
    expect(run.code).toBe(0);
    expect(run.stdout).toBe(`# a.yaml:4
apiVersion: firezone/v0
kind: Rule
metadata: {name: s/r/10.0.0.0-8}
spec:
  action: drop
  destination: 10.0.0.0/8
  user: alice@example.com
`);
    expect(run.stderr).toContain('nested-destination');
    expect(run.stderr).toContain('unresolved-email');
    expect(simulator.requests()).toEqual([]);
    write('a.yaml', document('Rule', 's', '{}'));
    expect(await place.run('build', '.')).toMatchObject({ code: 4, stdout: '' });
  });
});

describe('reconcile fmt', () => {
  it('shows what is wrong below a byte-order mark where it is, and a mark in settings and values is none of theirs', async () => {
    write('good.yaml', document('Rule', 'other', '{action: drop, destination: 10.0.0.2}'));
    const mark = '\u{feff}';
    write('marked.yaml', `${mark}apiVersion: firezone/v1\nkind: Rule\n`);
    write('broken.yaml', `${mark}a: [$\{x}\n`);
    const run = await place.run('fmt', 'marked.yaml', 'broken.yaml');
    expect(run.stderr).toContain('     1 | apiVersion: firezone/v1\n       |             ^\n');
    expect(run.stderr).toContain('broken.yaml:1:5 error');
    write('settings.yaml', `${mark}baseUrlx: 3\n`);
    const settings = await place.run('validate', '--config', 'settings.yaml', 'good.yaml');
    expect(settings.stderr).toContain('settings.yaml:1:1 error');
    write('values.yaml', `${mark}name: web\n`);
    expect((await place.run('validate', '--values', 'values.yaml', 'good.yaml')).stderr).not.toContain('values.yaml');
  });

  it('formats in place; --check only says so', async () => {
    const ugly = document('Rule', 'web', '{destination: 10.0.0.1/32, action: drop} # why');
    write('a.yaml', ugly);
    write('good.yaml', document('Rule', 'other', '{action: drop, destination: 10.0.0.2}'));
    expect(await place.run('fmt', '--check', '.')).toMatchObject({ code: 1, stdout: 'a.yaml\n' });
    expect(read('a.yaml')).toBe(ugly);
    expect(await place.run('fmt', 'a.yaml', 'good.yaml')).toMatchObject({ code: 0, stdout: 'a.yaml\n' });
    expect(read('a.yaml')).toContain('{action: drop, destination: 10.0.0.1} # why');
    expect(await place.run('fmt', '--check', '.')).toMatchObject({ code: 0, stdout: '' });
    write('a.yaml', 'kind: [');
    expect(await place.run('fmt', '.')).toMatchObject({ code: 4 });
    expect(read('a.yaml')).toBe('kind: [');
    expect(await place.run('fmt')).toMatchObject({ code: 1 });
  });

  it('threat 37: does not write through a link that a pull request brought', async () => {
    const ugly = document('Rule', 'web', '{destination: 10.0.0.1/32, action: drop} # why');
    const outside = workspace();
    try {
      const target = path.join(outside.directory, 'x.yaml');
      writeFileSync(target, ugly);
      symlinkSync(target, path.join(place.directory, 'a.yaml'));
      const run = await place.run('fmt', 'a.yaml');
      expect([run.code, run.stderr]).toEqual([1, expect.stringContaining('a.yaml is a link')]);
      expect(readFileSync(target, 'utf8')).toBe(ugly);
    } finally {
      outside.remove();
    }
  });

  it('leaves a file alone that is not UTF-8: its bytes would be lost', async () => {
    const latin = Buffer.from(document('Rule', 'web', '{destination: 10.0.0.1/32, action: drop} # caf\xe9'), 'latin1');
    writeFileSync(path.join(place.directory, 'a.yaml'), latin);
    for (const operand of ['a.yaml', '.']) {
      const run = await place.run('fmt', operand);
      expect(run).toMatchObject({ code: 4, stdout: '' });
      expect(run.stderr).toContain('a.yaml:4:1 error [not-utf8]');
    }
    expect(readFileSync(path.join(place.directory, 'a.yaml')).equals(latin)).toBe(true);
  });
});

describe('reconcile schema', () => {
  it('prints the schema of a kind', async () => {
    const run = await place.run('schema', 'ruleset');
    expect(JSON.parse(run.stdout)).toEqual(
      JSON.parse(readFileSync(new URL('../../schemas/RuleSet.json', import.meta.url), 'utf8')),
    );
    expect((await place.run('schema')).stdout.includes('"#/$defs/PolicyTest"')).toBe(true);
    expect((await place.run('schema', 'Ruel')).stderr).toContain('`Rule`');
  });
});
