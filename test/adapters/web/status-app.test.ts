import { request as httpRequest } from 'node:http';
import { connect, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { isLoopback, listen, parseListen } from '../../../src/adapters/web/listen.ts';
import type { StatusAppSettings } from '../../../src/adapters/web/status-app.ts';
import { createStatusApp } from '../../../src/adapters/web/status-app.ts';
import { someStatus } from '../../controller/support/some-status.ts';

const endpoints = ['/', '/status', '/metrics', '/healthz', '/readyz', '/nowhere', '/status/x', '/webhook', '/.env'];

function app(overrides: Partial<StatusAppSettings> = {}) {
  return createStatusApp({
    status: () => someStatus(),
    alive: () => true,
    ready: () => true,
    metrics: () => Promise.resolve({ type: 'text/plain', text: 'x 1\n' }),
    host: '127.0.0.1',
    hosts: [],
    token: () => null,
    ...overrides,
  });
}

async function get(settings: Partial<StatusAppSettings>, path: string, headers: Record<string, string> = {}) {
  const response = await app(settings).request(path, { headers: { host: '127.0.0.1:8080', ...headers } });
  return { status: response.status, text: await response.text(), headers: response.headers };
}

describe('the status server', () => {
  it('fault 41: tells liveness by progress, and readiness apart from it', async () => {
    expect((await get({}, '/healthz')).status).toBe(200);
    expect((await get({ alive: () => false }, '/healthz')).status).toBe(503);
    expect((await get({ alive: () => false }, '/readyz')).status).toBe(200);
    expect((await get({ ready: () => false }, '/readyz')).status).toBe(503);
  });

  it('threat 24: beyond loopback everything but the two probes needs the token', async () => {
    const settings = { host: '0.0.0.0', hosts: ['sidecar'], token: () => 'tok' };
    for (const path of endpoints) {
      const open = path === '/healthz' || path === '/readyz';
      const without = await get(settings, path, { host: 'sidecar:1' });
      expect([path, without.status]).toEqual([path, open ? 200 : 401]);
      for (const wrong of ['Bearer x', 'Bearer ', 'tok', 'Basic tok', 'Bearer tokk']) {
        const answer = await get(settings, path, { host: 'sidecar:1', authorization: wrong });
        expect([path, wrong, answer.status]).toEqual([path, wrong, open ? 200 : 401]);
      }
    }
    expect((await get(settings, '/status', { host: 'sidecar:1', authorization: 'Bearer tok' })).status).toBe(200);
    expect(
      (await get({ ...settings, token: () => '' }, '/status', { host: 'sidecar', authorization: 'Bearer ' })).status,
    ).toBe(401);
    expect((await get({ ...settings, token: () => null }, '/status', { host: 'sidecar' })).status).toBe(403);
  });

  it('threat 24: on loopback a foreign Host is refused, so that no page in a browser can read the status', async () => {
    for (const host of ['evil.example', 'evil.example:8080', '', '127.0.0.1.evil.example', '10.0.0.1']) {
      for (const path of ['/status', '/metrics', '/'])
        expect([host, (await get({}, path, { host })).status]).toEqual([host, 421]);
    }
    for (const host of ['localhost:1', '127.0.0.1:1', '[::1]:1'])
      expect((await get({}, '/status', { host })).status).toBe(200);
  });

  it('threat 24: nothing acts: only GET is answered', async () => {
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH']) {
      for (const path of endpoints) {
        const response = await app().request(path, { method, headers: { host: '127.0.0.1' } });
        expect([method, path, response.status]).toEqual([method, path, 404]);
      }
    }
  });

  it('threat 23: the page escapes what comes from outside, and runs nothing', async () => {
    const hostile = '"><script>alert(1)</script><img src=x onerror=alert(1)><a href="javascript:alert(1)">\'';
    const page = await get({ status: () => someStatus(hostile) }, '/');
    expect(page.status).toBe(200);
    expect(page.text).not.toMatch(/<script|<img|<a /i);
    expect(page.text).toContain('&lt;script&gt;');
    expect(page.headers.get('content-security-policy')).toMatch(/^default-src 'none';/);
    expect(page.headers.get('x-content-type-options')).toBe('nosniff');
    expect(page.headers.get('cache-control')).toBe('no-store');
  });

  it('threat 22: no control character and none that changes direction leaves it raw', async () => {
    const hostile = 'evil\n\u001b[31m\u009b2J\u202e\u2066name';
    for (const path of ['/', '/status']) {
      const { text } = await get({ status: () => someStatus(hostile) }, path);
      expect([path, /[^\P{Cc}\n]|\p{Cf}|\\u001b/u.test(text)]).toEqual([path, false]);
      expect(text).toContain('{202e}');
    }
  });

  it('answers over a socket and frees it', async () => {
    const where = parseListen('127.0.0.1:0');
    if (!where.ok) throw new Error(where.error);
    const server = await listen(app(), where.value);
    if (!server.ok) throw new Error(server.error);
    const status = await new Promise((resolve) => {
      httpRequest(`${server.value.url}/healthz`, (response) => resolve(response.statusCode)).end();
    });
    expect(status).toBe(200);
    const taken = await listen(app(), { host: '127.0.0.1', port: Number(new URL(server.value.url).port) });
    expect(taken.ok).toBe(false);
    await server.value.close();
  });

  it('threat 24: hundreds of clients that say nothing do not keep a probe from being answered', async () => {
    const server = await listen(app(), { host: '127.0.0.1', port: 0 });
    if (!server.ok) throw new Error(server.error);
    const port = Number(new URL(server.value.url).port);
    const silent = await Promise.all(
      Array.from(
        { length: 300 },
        () =>
          new Promise<Socket>((resolve) => {
            const socket = connect(port, '127.0.0.1', () => resolve(socket));
            socket.on('error', () => undefined); // closed to make room
            socket.write('GET /status HTTP/1.1\r\n');
          }),
      ),
    );
    const answer = await fetch(`${server.value.url}/healthz`, { signal: AbortSignal.timeout(5000) });
    expect(answer.status).toBe(200);
    for (const socket of silent) socket.destroy();
    await server.value.close();
  });

  it('reads addresses, loopback when none is named', () => {
    expect(parseListen('8080')).toEqual({ ok: true, value: { host: '127.0.0.1', port: 8080 } });
    expect(parseListen(':8080')).toEqual({ ok: true, value: { host: '127.0.0.1', port: 8080 } });
    expect(parseListen('[::]:80')).toEqual({ ok: true, value: { host: '::', port: 80 } });
    for (const bad of ['', 'x', '1:2:3', '127.0.0.1:99999', 'http://x:1']) expect(parseListen(bad).ok).toBe(false);
    expect(
      ['127.0.0.1', '127.9.9.9', '::1', 'localhost', '0.0.0.0', '::', '10.0.0.1', '127.evil.example'].map(isLoopback),
    ).toEqual([true, true, true, true, false, false, false, false]);
  });
});
