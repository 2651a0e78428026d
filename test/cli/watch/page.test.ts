import { execFile } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import path from 'node:path';
import { connect } from 'node:tls';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Sidecar, World } from '../../controller/support/sidecar.ts';
import {
  apiToken,
  binary,
  ensureBuilt,
  makeWorld,
  rules,
  startSidecar,
  until,
} from '../../controller/support/sidecar.ts';

const certificates = path.join(import.meta.dirname, '../../adapters/api/certificates');
const webToken = 'CANARY-web-token';
const secret = 'CANARY/client "secret"&é';
let world: World;
let sidecar: Sidecar;

const file = (name: string): string => path.join(world.folder, name);
const take = (certificate: string): void => {
  copyFileSync(path.join(certificates, `${certificate}.pem`), file('cert.pem'));
  copyFileSync(path.join(certificates, `${certificate}.key`), file('key.pem'));
};

/** One answer over TLS; of a stream its beginning. */
function get(url: string, isStream = false): Promise<{ readonly status: number; readonly text: string }> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${webToken}`, accept: 'text/html' };
    const asked = request(`${sidecar.url}${url}`, { headers, rejectUnauthorized: false }, (answer) => {
      let text = JSON.stringify(answer.headers);
      const end = (): void => resolve({ status: answer.statusCode ?? 0, text });
      answer.on('end', end).on('data', (chunk) => {
        text += String(chunk);
        if (!isStream) return;
        end();
        asked.destroy();
      });
    });
    asked.on('error', reject).end();
  });
}

/** The name in the certificate that is shown now. */
function shownName(): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(
      { host: '127.0.0.1', port: Number(new URL(sidecar.url).port), rejectUnauthorized: false },
      () => {
        resolve(socket.getPeerX509Certificate()?.fingerprint256 ?? '');
        socket.destroy();
      },
    ).on('error', reject);
  });
}

beforeAll(async () => {
  ensureBuilt();
  world = await makeWorld();
  world.sim.seed([{ action: 'accept', destination: '10.77.0.0/16' }]);
  writeFileSync(path.join(world.manifests, 'a.yaml'), rules('10.0.0.1'));
  writeFileSync(
    path.join(world.manifests, 'c.yaml'),
    `apiVersion: firezone/v0
kind: Configuration
metadata: {name: c}
spec:
  openid_connect_providers:
    - {id: g, label: G, client_id: c, client_secret: {env: RECONCILE_SECRET_G}, discovery_document_uri: "https://idp.example/d", auto_create_users: false}
`,
  );
  writeFileSync(file('web-token'), webToken);
  take('localhost');
  const tls = ['--listen-tls-cert', file('cert.pem'), '--listen-tls-key', file('key.pem')];
  sidecar = await startSidecar(
    world,
    [world.manifests, ...tls, '--listen-token-file', file('web-token'), '--suspend', '--interval', '1s'],
    { RECONCILE_SECRET_G: secret, RECONCILE_BIND_SECRET: 'RECONCILE_SECRET_G=g@idp.example' },
  );
});
afterAll(async () => {
  await sidecar?.stop();
  await world?.close();
});

describe('the page of a running sidecar', () => {
  it('is served over TLS, with the certificate that the files hold now', async () => {
    expect(sidecar.url).toMatch(/^https:/);
    const first = await shownName();
    take('elsewhere');
    await until(async () => (await shownName()) !== first);
    const second = await shownName();
    // Half of a renewal: the certificate before stays.
    writeFileSync(file('key.pem'), 'no key');
    expect(await shownName()).toBe(second);
    take('localhost');
    await until(async () => (await shownName()) === first);
  });

  it('threats 11 to 14: holds no secret and no token, on any page, in any document, in any event', async () => {
    await until(async () => (await get('/')).text.includes('Suspended'));
    const pages = ['/', '/?q=10.77', '/?destination=10.0.0.1&protocol=tcp', '/status', '/metrics', '/nowhere'];
    const documents = ['status', 'plan', 'rules', 'explain?destination=10.0.0.1&protocol=udp'];
    const answers = await Promise.all([...pages, ...documents.map((name) => `/api/v1/${name}`)].map((url) => get(url)));
    expect(answers.map(({ status }) => status)).toEqual(answers.map((_, index) => (index === 5 ? 404 : 200)));
    expect(answers[0]?.text).toContain('10.77.0.0/16');
    expect(answers[7]?.text).toContain('client_secret');
    const unknown = await get('/api/v1/explain?destination=10.0.0.1&protocol=udp&user=al3');
    expect(unknown.text).toContain('others need the server (`explain` and `reach` with --live)');
    const event = await get('/api/v1/events', true);
    expect(event.text).toContain('event: state');
    const marks = [
      webToken,
      apiToken,
      secret,
      JSON.stringify(secret).slice(1, -1),
      encodeURIComponent(secret),
      'CANARY',
    ];
    for (const { text } of [...answers, event]) {
      for (const mark of marks) expect([mark, text.includes(mark)]).toEqual([mark, false]);
    }
    for (const mark of marks) expect(sidecar.output()).not.toContain(mark);
    expect(readFileSync(file('web-token'), 'utf8')).toBe(webToken);
  });
});

/** The sources of all modules that a command line loaded, by what V8 says that it ran and the maps of the bundle. */
async function sourcesLoadedBy(...args: readonly string[]): Promise<readonly string[]> {
  const coverage = mkdtempSync(path.join(world.folder, 'coverage-'));
  const env = { ...process.env, NODE_V8_COVERAGE: coverage, RECONCILE_TOKEN_FILE: world.tokenFile };
  await promisify(execFile)(process.execPath, [binary, ...args, '--base-url', world.sim.url], { env });
  const urls = readdirSync(coverage).flatMap((name): readonly string[] =>
    JSON.parse(readFileSync(path.join(coverage, name), 'utf8')).result.map(({ url }: { url: string }) => url),
  );
  const own = [...new Set(urls)].filter((url) => url.includes('/dist/'));
  return own.flatMap((url) => JSON.parse(readFileSync(`${new URL(url).pathname}.map`, 'utf8')).sources);
}

describe('the modules of the pages', () => {
  const isOfPage = (source: string): boolean => /report\/(?:html|sidecar-html)|adapters\/web\/|\/hono\//.test(source);

  it('are loaded by no command without a page: neither by a plan nor by a sidecar that listens nowhere (long)', async () => {
    mkdirSync(file('in-sync'));
    writeFileSync(file('in-sync/live.yaml'), rules('10.77.0.0/16'));
    const plan = ['plan', file('in-sync')];
    const once = ['watch', '--once', file('in-sync')];
    const [planned, watched, shown] = await Promise.all([
      sourcesLoadedBy(...plan),
      sourcesLoadedBy(...once),
      sourcesLoadedBy(...plan, '--output', `html=${file('plan.html')}`),
    ]);
    expect([planned, watched].map((loaded) => loaded.filter(isOfPage))).toEqual([[], []]);
    expect(watched.some((source) => source.endsWith('src/reconcile.ts'))).toBe(true);
    expect(shown.some(isOfPage)).toBe(true);
  });
});
