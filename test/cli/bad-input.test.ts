import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, symlinkSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { TokenStore } from '../../src/simulator/tokens.ts';
import { ensureBuilt } from '../controller/support/sidecar.ts';
import { configuration, rule, startWorld, type World } from './harness.ts';

let world: World;
const servers: Server[] = [];

beforeEach(async () => {
  world = await startWorld();
});

afterEach(async () => {
  await world.close();
  for (const server of servers.splice(0)) await new Promise((resolve) => server.close(resolve));
});

/** Writes of the API: none may happen on bad input. */
const writes = (): readonly unknown[] => world.simulator.requests().filter(({ method }) => method !== 'GET');

async function listening(server: Server): Promise<string> {
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const serve = async (listener: RequestListener): Promise<string> => `http://${await listening(createServer(listener))}`;

describe('manifests', () => {
  const good = rule('good', 'action: drop, destination: 10.0.0.0/8');
  const oidc = (fields: string): string =>
    configuration(
      `openid_connect_providers:\n  - {id: g, label: G, client_id: c, client_secret: {env: RECONCILE_SECRET_G}, auto_create_users: false, ${fields}}`,
    );

  it.each<[string, string, string, RegExp]>([
    ['invalid YAML', 'kind: Rule\n  spec: [', 'invalid-yaml', /./],
    ['duplicate names', good + rule('good', 'action: drop, destination: 192.0.2.0/24'), 'duplicate-name', /./],
    ['the same rule twice', good + rule('again', 'action: drop, destination: 10.0.0.0/8'), 'duplicate-rule', /./],
    ['an unknown kind', 'apiVersion: firezone/v0\nkind: Rul\nmetadata: {name: a}\nspec: {}\n', 'unknown-kind', /Rule/],
    ['an unknown field', rule('a', 'action: drop, destinaton: 10.0.0.0/8'), 'unknown-field', /destination/],
    ['an unknown version', good.replace('firezone/v0', 'firezone/v1'), 'unknown-version', /firezone\/v0/],
    ['an octal address', rule('a', 'action: drop, destination: 010.0.0.1'), 'address-octal', /./],
    ['a mask past 32', rule('a', 'action: drop, destination: 10.0.0.0/33'), 'address-mask', /./],
    [
      'a port list as a text',
      rule('a', 'action: drop, destination: 10.0.0.1, port_type: tcp, port_range: "80,443"'),
      'port-list',
      /./,
    ],
    [
      'port 65535',
      rule('a', 'action: drop, destination: 10.0.0.1, port_type: tcp, port_range: 65535'),
      'port-bounds',
      /./,
    ],
    ['a malformed UUID', rule('a', 'action: drop, destination: 10.0.0.1, user_id: 12345'), 'wrong-type', /./],
    ['a malformed URL', oidc('discovery_document_uri: not-a-url'), 'invalid-url', /./],
    [
      'addresses that would poison the server',
      configuration('default_client_allowed_ips: [10.0.0.1, 10.0.0.1/32]'),
      'duplicate-member',
      /./,
    ],
  ])('%s: one problem at its place, exit 4, nothing written', async (_, text, code, words) => {
    world.write('m/a.yaml', text);
    const run = await world.cli(['--output', 'json', 'm'], { env: { RECONCILE_SECRET_G: 'x' } });
    expect(run.code).toBe(4);
    const errors = run.json().problems.filter(({ severity }) => severity === 'error');
    expect(errors.map((problem) => problem.code)).toContain(code);
    expect(errors.every(({ file, line }) => file === 'a.yaml' && (line ?? 0) > 0)).toBe(true);
    expect(`${errors[0]?.summary} ${errors[0]?.hint}`).toMatch(words);
    expect(writes()).toEqual([]);
  });

  it('no PATH: says which directory to name, exit 1', async () => {
    for (const args of [['--plan'], [], ['validate'], ['test'], ['drift']]) {
      const run = await world.cli(args);
      expect([run.code, run.err]).toEqual([1, expect.stringContaining('PATH is missing')]);
    }
  });

  it('a flag of the main command before the name of another: says how to write a directory of that name', async () => {
    const run = await world.cli(['--plan', 'test']);
    expect([run.code, run.err]).toEqual([1, expect.stringContaining('write a directory as ./test')]);
  });

  it('a directory that has a command’s name is planned as ./test', async () => {
    world.write('test/a.yaml', good);
    const run = await world.cli(['--plan', './test']);
    expect([run.code, run.out]).toEqual([0, expect.stringContaining('1 to create')]);
  });

  it('an empty directory, one without manifests, one that is not there, a file: an error, never "delete everything"', async () => {
    world.simulator.seed([{ action: 'drop', destination: '10.0.0.0/8' }]);
    mkdirSync(`${world.folder}/empty`);
    world.write('other/readme.md', 'nothing here');
    world.write('file.yaml', good);
    for (const [path, words] of [
      ['empty', /holds no manifest/],
      ['other', /holds no manifest/],
      ['nowhere', /does not exist/],
      ['file.yaml', /not a directory/],
    ] as const) {
      const run = await world.cli(['--yes', '--allow-empty', path]);
      expect(run.code).toBe(4);
      expect(run.err + run.out).toMatch(words);
    }
    expect(world.simulator.rules()).toHaveLength(1);
  });

  it.skipIf(process.getuid?.() === 0)('an unreadable file: the whole load fails', async () => {
    world.write('m/a.yaml', good);
    chmodSync(world.write('m/b.yaml', good), 0o000);
    const run = await world.cli(['m']);
    expect([run.code, run.out + run.err]).toEqual([4, expect.stringContaining('permission denied')]);
  });

  it('problems of all files are shown at once, with the line, a caret under the column and a hint', async () => {
    world.write('m/a.yaml', rule('a', 'action: drop, destinaton: 10.0.0.0/8'));
    world.write('m/b.yaml', rule('b', 'action: dorp, destination: 10.0.0.0/8'));
    const run = await world.cli(['validate', 'm']);
    const lines = run.out.split('\n');
    expect(run.out).toContain('a.yaml:4:');
    expect(run.out).toContain('b.yaml:4:');
    const shown = lines.findIndex((line) => line.includes('destinaton: 10'));
    expect(lines[shown + 1]?.indexOf('^')).toBe(lines[shown]?.indexOf('destinaton'));
    expect(run.out).toMatch(/Did you mean `destination`/);
  });
});

describe('the token', () => {
  beforeEach(() => {
    world.write('m/a.yaml', rule('a', 'action: drop, destination: 10.0.0.0/8'));
  });

  it('none: says where to put it, and never takes one as an argument', async () => {
    const run = await world.cli(['--plan', 'm'], { env: { RECONCILE_TOKEN: '' } });
    expect([run.code, run.err]).toEqual([1, expect.stringContaining('--token-file')]);
    expect((await world.cli(['--plan', '--token', 'abc', 'm'])).code).toBe(1);
  });

  it('a file that is not there, is empty, or holds something else', async () => {
    world.write('empty', '\n');
    world.write('words', 'this is no token\n');
    for (const [file, words] of [
      ['missing', /cannot be read \(ENOENT\)/],
      ['empty', /it is empty/],
      ['words', /does not hold a token/],
      ['.', /not a regular file|cannot be read/],
    ] as const) {
      const run = await world.cli(['--plan', '--token-file', file, 'm'], { env: { RECONCILE_TOKEN: '' } });
      expect([run.code, run.err]).toEqual([1, expect.stringMatching(words)]);
    }
  });

  it('a wrong one: says that it is not valid here', async () => {
    const run = await world.cli(['--plan', 'm'], { env: { RECONCILE_TOKEN: 'a-wrong-token' } });
    expect([run.code, run.err]).toEqual([1, expect.stringMatching(/401.*not valid here/)]);
  });

  it.each([
    ['{"errors":{"auth":"no_resource_found"}}', /expired, was deleted, or its owner was/],
    ['{"errors":{"auth":"invalid_token"}}', /not valid here/],
    ['{"errors":{"auth":"unauthenticated"}}', /proxy remove the Authorization header/],
    ['{"error":"Unauthorized"}', /owner is not an administrator/],
  ])('both shapes of 401 are told apart: %s', async (body, words) => {
    const url = await serve((_, response) => response.writeHead(401, { 'content-type': 'application/json' }).end(body));
    const run = await world.cli(['--plan', 'm'], { env: { RECONCILE_BASE_URL: url } });
    expect([run.code, run.err + run.out]).toEqual([1, expect.stringMatching(words)]);
  });

  it('one that may not read (403): says whose token it takes, and does not blame the address', async () => {
    const url = await serve((_, response) => response.writeHead(403).end());
    const run = await world.cli(['--plan', '--output', 'json', 'm'], { env: { RECONCILE_BASE_URL: url } });
    expect(run.code).toBe(1);
    const [problem] = run.json().problems;
    expect(problem).toMatchObject({ code: 'api-forbidden', summary: expect.stringContaining('GET /v0/') });
    expect(problem?.hint).toMatch(/administrator.*proxy or firewall/);
    expect(problem?.hint).not.toContain('--base-url');
  });

  it('an expired one: says since when, from the token itself', async () => {
    const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
    const jwt = `${part({ alg: 'HS512', typ: 'JWT' })}.${part({ exp: 1_700_000_000, typ: 'access' })}.c2ln`;
    const tokens = new TokenStore();
    const other = await startWorld({ tokens });
    try {
      other.write('m/a.yaml', rule('a', 'action: drop, destination: 10.0.0.0/8'));
      const run = await other.cli(['--plan', 'm'], { env: { RECONCILE_TOKEN: jwt } });
      expect([run.code, run.err + run.out]).toEqual([1, expect.stringContaining('expired on 2023-11-14')]);
    } finally {
      await other.close();
    }
  });
});

describe('the connection', () => {
  beforeEach(() => {
    world.write('m/a.yaml', rule('a', 'action: drop, destination: 10.0.0.0/8'));
  });

  const plan = (url: string, ...args: readonly string[]): Promise<{ code: number; err: string; out: string }> =>
    world.cli(['--plan', ...args, 'm'], { env: { RECONCILE_BASE_URL: url } });

  it('nothing listens: says so, exit 1', async () => {
    const server = createServer();
    const host = await listening(server);
    servers.pop();
    await new Promise((resolve) => server.close(resolve));
    const run = await plan(`http://${host}`);
    expect([run.code, run.err + run.out]).toEqual([1, expect.stringMatching(/refused[\s\S]*check --base-url/)]);
  });

  it('the name cannot be resolved', async () => {
    const run = await plan('https://no-such-host.invalid');
    expect([run.code, run.err + run.out]).toEqual([1, expect.stringMatching(/check --base-url/)]);
  });

  it('a wrong base URL: 404, an HTML page, a redirect', async () => {
    const notFound = await serve((_, response) =>
      response.writeHead(404, { 'content-type': 'application/json' }).end('{"error":"not_found"}'),
    );
    const page = await serve((_, response) =>
      response.writeHead(200, { 'content-type': 'text/html' }).end('<html>sign in</html>'),
    );
    const elsewhere = await serve((_, response) =>
      response.writeHead(302, { location: 'http://127.0.0.1:9/login' }).end(),
    );
    for (const [url, words] of [
      [notFound, /404, there is no such API here/],
      [page, /this is not the API/],
      [elsewhere, /never redirects/],
    ] as const) {
      const run = await plan(url);
      expect([run.code, run.err + run.out]).toEqual([1, expect.stringMatching(words)]);
    }
  });

  it.each([
    ['not a URL', 'vpn.example.com', /is not a URL|must start with https/],
    ['another scheme', 'ftp://vpn.example.com', /must start with https/],
    ['a scheme that nobody knows', 'htps://vpn.example.com', /must start with https/],
    ['plain http beyond loopback', 'http://192.0.2.1', /--allow-http/],
    ['with a password', 'https://user:pw@vpn.example.com', /must not hold a user name or password/],
    ['with /v0', 'https://vpn.example.com/v0', /must end before \/v0/],
  ])('a base URL that cannot be right: %s', async (_, url, words) => {
    const run = await plan(url);
    expect([run.code, run.err]).toEqual([1, expect.stringMatching(words)]);
    expect(run.err).not.toContain('user:pw');
  });

  it('an empty 500 that stays: says where to look, exit 1 (long)', async () => {
    const url = await serve((_, response) => response.writeHead(500, { 'content-length': '0' }).end());
    const run = await plan(url);
    expect([run.code, run.err + run.out]).toEqual([
      1,
      expect.stringMatching(/500 without a body[\s\S]*its log says why/),
    ]);
  });

  it('half an answer is no answer: no plan, exit 1 (long)', async () => {
    world.simulator.seed([{ action: 'drop', destination: '10.0.0.0/8' }]);
    world.simulator.faults.inject({ match: { method: 'GET', path: '/v0/rules' }, fault: { kind: 'torn' } });
    const run = await world.cli(['m']);
    expect([run.code, writes()]).toEqual([1, []]);
  });

  it('a certificate that nobody vouches for: names --ca-file, exit 1', async () => {
    const { key, cert } = await selfSigned();
    const host = await listening(createTlsServer({ key, cert }, (_, response) => response.end()) as unknown as Server);
    const run = await plan(`https://${host}`);
    expect([run.code, run.err + run.out]).toEqual([1, expect.stringContaining('--ca-file')]);
  });

  it('422 with messages for fields: the server’s own words, the rest is done', async () => {
    world.write(
      'm/a.yaml',
      rule('a', 'action: drop, destination: 10.0.0.0/8, user_id: 00000000-0000-4000-8000-000000000000') +
        rule('b', 'action: drop, destination: 192.0.2.0/24'),
    );
    const run = await world.cli(['m']);
    expect(run.code).toBe(5);
    expect(run.out + run.err).toMatch(/user does not exist/);
    expect(world.simulator.rules()).toHaveLength(1);
  });
});

/** A key and a certificate for 127.0.0.1 that no authority signed. */
async function selfSigned(): Promise<{ readonly key: string; readonly cert: string }> {
  const { execFileSync } = await import('node:child_process');
  const [key, cert] = [`${world.folder}/key.pem`, `${world.folder}/cert.pem`];
  execFileSync(
    'openssl',
    [
      'req',
      '-x509',
      '-newkey',
      'rsa:2048',
      '-nodes',
      '-keyout',
      key,
      '-out',
      cert,
      '-days',
      '1',
      '-subj',
      '/CN=127.0.0.1',
    ],
    { stdio: 'ignore' },
  );
  return { key: world.read('key.pem'), cert: world.read('cert.pem') };
}

describe('a path that cannot be followed', () => {
  it.each([
    ['plan', 'loop'],
    ['validate', 'loop'],
    ['fmt', 'loop/a.yaml'],
    ['apply', '--yes', 'loop'],
    ['diff', 'm', 'loop'],
    ['log', 'loop'],
    ['plan', '--base', 'loop', 'm'],
    ['validate', 'x'.repeat(256)],
    ['validate', 'm/a.yaml/x'],
    ['plan', 'm/a.yaml/x'],
  ])('is no mistake of the program, and %s %s names it', async (...argv) => {
    world.write('m/a.yaml', rule('a', 'action: drop, destination: 10.0.0.0/8'));
    symlinkSync('loop', join(world.folder, 'loop'));
    const run = await world.cli(argv);
    expect([run.code, run.err + run.out]).toEqual([
      1,
      expect.stringMatching(/\[unreadable-file\] .* cannot be read \((ELOOP|ENAMETOOLONG|ENOTDIR)\)/),
    ]);
    expect(writes()).toEqual([]);
  });
});

describe('a FIFO where a file is named', () => {
  it.each([
    ['plan', '--snapshot', 'fifo', 'm'],
    ['apply', 'fifo', 'm'],
    ['plan', '--values', 'fifo', 'm'],
    ['plan', '--config', 'fifo', 'm'],
    ['plan', '--base-url', 'https://127.0.0.1:9', '--ca-file', 'fifo', 'm'],
    ['plan', '--token-file', 'fifo', 'm'],
    ['apply', '--yes', '--journal', 'fifo', 'm'],
    ['undo', '--state-dir', 'fifo'],
    ['watch', '--once', '--listen', '127.0.0.1:0', '--listen-token-file', 'fifo', 'm'],
    ['watch', '--once', '--state-dir', 'fifo', 'm'],
  ])('threat 7: nobody writes to it, and %s %s is refused at once', async (...argv) => {
    world.write('m/a.yaml', rule('a', 'action: drop, destination: 10.0.0.0/8'));
    execFileSync('mkfifo', [join(world.folder, 'fifo')]);
    const run = await world.cli(argv);
    expect([run.code, run.err]).toEqual([1, expect.not.stringContaining('internal-error')]);
    expect(writes()).toEqual([]);
  });

  it('is read where a shell made it: --values <(command)', () => {
    world.write('m/a.yaml', rule('a', `action: drop, destination: "\${net}"`));
    const line = `"$0" dist/reconcile.js build --values <(sleep 0.1; echo 'net: 10.0.0.0/8') "$1"`;
    ensureBuilt();
    const run = spawnSync('bash', ['-c', line, process.execPath, join(world.folder, 'm')], { encoding: 'utf8' });
    expect([run.status, run.stdout]).toEqual([0, expect.stringContaining('10.0.0.0/8')]);
  });
});
