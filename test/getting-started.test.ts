import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Simulator, startSimulator } from '../src/simulator/server.ts';
import { cutLike, makeSteady, readSession } from './docs/session.ts';

const root = new URL('../', import.meta.url).pathname;
const text = readFileSync(`${root}docs/start/getting-started.md`, 'utf8');
const command = `${root}dist/reconcile.js`;
const metadata =
  '<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://idp.example/x"/>';

let simulator: Simulator;
let folder: string;

beforeAll(async () => {
  const ids = ['a1520c4b-adc3-4574-932a-94461cf85c07', 'b9692cfa-f429-4ea6-947f-ad22d40fd18b'];
  simulator = await startSimulator({
    token: 'test-token',
    users: ids.map((id, index) => ({ name: ['alice', 'bob'][index] ?? '', id })),
  });
  simulator.seed(
    Array.from({ length: 40 }, (_, i) => ({
      action: i % 3 === 0 ? 'drop' : 'accept',
      destination: i % 5 === 0 ? `2001:db8:${i + 1}::/48` : `10.${i}.0.${i}/16`,
      ...(i % 2 === 0
        ? { port_type: i % 4 === 0 ? 'tcp' : 'udp', port_range: i % 8 === 0 ? '443' : '8000 - 8010' }
        : {}),
      ...(i % 4 === 3 ? {} : { user_id: ids[i % 2] ?? '' }),
    })),
  );
  await call({
    openid_connect_providers: [
      {
        id: 'google',
        label: 'Google',
        client_id: 'cid',
        client_secret: 'CANARY',
        discovery_document_uri: 'https://idp.example/x',
        auto_create_users: true,
      },
    ],
    saml_identity_providers: [{ id: 'okta', label: 'Okta', metadata, auto_create_users: false }],
  });
  folder = mkdtempSync(path.join(tmpdir(), 'getting-started-'));
  mkdirSync(path.join(folder, 'bin'));
  writeFileSync(path.join(folder, 'bin/reconcile'), `#!/bin/sh\nexec "${process.execPath}" "${command}" "$@"\n`);
  chmodSync(path.join(folder, 'bin/reconcile'), 0o755);
  writeFileSync(path.join(folder, 'token'), 'test-token', { mode: 0o600 });
});

afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await simulator.close();
});

async function call(configuration: object): Promise<void> {
  const headers = {
    authorization: 'Bearer test-token',
    'content-type': 'application/json',
    accept: 'application/json',
  };
  const answer = await fetch(`${simulator.url}/v0/configuration`, {
    method: 'PATCH',
    headers,
    body: JSON.stringify({ configuration }),
  });
  expect(answer.status).toBe(200);
}

/** Runs a line of the page in a shell; throws with its output when it fails. The server runs here, so not synchronously. */
async function shell(line: string): Promise<string> {
  const { spawn } = await import('node:child_process');
  const identity = {
    GIT_AUTHOR_NAME: 'A',
    GIT_AUTHOR_EMAIL: 'a@example.com',
    GIT_COMMITTER_NAME: 'A',
    GIT_COMMITTER_EMAIL: 'a@example.com',
  };
  const child = spawn('sh', ['-c', `exec 2>&1; ${line}`], {
    cwd: folder,
    env: {
      PATH: `${path.join(folder, 'bin')}:${process.env['PATH']}`,
      HOME: folder,
      GIT_CONFIG_COUNT: '1',
      GIT_CONFIG_KEY_0: 'init.defaultBranch',
      GIT_CONFIG_VALUE_0: 'main',
      RECONCILE_BASE_URL: simulator.url,
      RECONCILE_TOKEN_FILE: path.join(folder, 'token'),
      ...identity,
    },
  });
  const output: string[] = [];
  child.stdout.on('data', (data: Buffer) => output.push(data.toString()));
  child.stderr.on('data', (data: Buffer) => output.push(data.toString()));
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  expect(code, `${line}\n${output.join('')}`).toBe(0);
  return output.join('');
}

const session = readSession('docs/start/getting-started.md');

/** Runs the commands of the page from one to another, and compares what they print with what the page shows. */
async function follow(first: RegExp, last: RegExp): Promise<string> {
  const from = session.findIndex(({ command }) => first.test(command));
  const to = session.findIndex(({ command }) => last.test(command));
  expect([from, to]).not.toContain(-1);
  const all: string[] = [];
  for (const { command, output } of session.slice(from, to + 1)) {
    const printed = await shell(command);
    all.push(printed);
    const given = [[simulator.url, 'https://vpn.example.com']] as const;
    const real = cutLike(makeSteady(output, given), makeSteady(printed, given));
    expect(`$ ${command}\n${real}`).toBe(`$ ${command}\n${makeSteady(output, given)}`);
  }
  return all.join('');
}

describe('docs/start/getting-started.md, followed to the letter with the built command', () => {
  it('has a built command to run', () => {
    if (!existsSync(command)) execFileSync(process.execPath, [`${root}scripts/build.mjs`]);
    expect(existsSync(command)).toBe(true);
  });

  it('brings a server with 40 rules and two providers into a repository, prints what the page shows, and changes nothing', async () => {
    const before = JSON.stringify([simulator.rules(), simulator.configuration()]);
    const printed = await follow(/^git init/, /^git -C policy commit/);
    expect(printed).not.toContain('CANARY');
    expect(printed).toContain('RECONCILE_SECRET_OIDC_GOOGLE');
    expect(JSON.stringify([simulator.rules(), simulator.configuration()])).toBe(before);
    expect(simulator.requests().filter(({ method }) => method !== 'GET')).toHaveLength(1);
    expect(await shell('git -C policy status --porcelain')).toBe('');
    expect(await shell('git -C policy grep -c CANARY || true')).toBe('');
  });

  it('then makes the first change', async () => {
    const rule = /```yaml\n([\s\S]*?)```/.exec(text)?.[1] ?? '';
    writeFileSync(path.join(folder, 'policy/rules/printers.yaml'), rule);
    const rules = simulator.rules().length;
    expect(await follow(/^reconcile fmt/, /^reconcile apply/)).toContain('10.99.0.0/24');
    expect(simulator.rules()).toHaveLength(rules + 1);
    await shell('reconcile --plan policy --detailed-exitcode');
  });
});
