import { request as httpRequest, type IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, it } from 'vitest';
import { statusSchema } from '../../../scripts/status-schema.ts';
import { systemClock } from '../../../src/adapters/clock.ts';
import { isLoopback, listen, parseListen } from '../../../src/adapters/web/listen.ts';
import type { PageView, StatusAppSettings } from '../../../src/adapters/web/status-app.ts';
import { createStatusApp } from '../../../src/adapters/web/status-app.ts';
import { createPages } from '../../../src/cli/watch/page.ts';
import { createStalledStatus, createStatus, type Status } from '../../../src/controller/status.ts';
import { someStatus } from '../../controller/support/some-status.ts';

const endpoints = ['/', '/status', '/metrics', '/healthz', '/readyz', '/nowhere', '/status/x', '/webhook', '/.env'];

/** The pages of a sidecar with this status, whose passes are not looked at. */
function viewOf(status: Status = someStatus()): PageView {
  return createPages({ status: () => status, running: null });
}

function app(overrides: Partial<StatusAppSettings> = {}) {
  return createStatusApp({
    view: viewOf(),
    alive: () => true,
    ready: () => true,
    metrics: () => Promise.resolve({ type: 'text/plain', text: 'x 1\n' }),
    host: '127.0.0.1',
    hosts: [],
    token: () => null,
    isSecure: false,
    clock: systemClock,
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
    const page = await get({ view: viewOf(someStatus(hostile)) }, '/');
    expect(page.status).toBe(200);
    expect(page.text.match(/<script/gi)).toHaveLength(1);
    expect(page.text).not.toMatch(/<img|javascript:[^"]*">/i);
    expect(page.text).toContain('&lt;script&gt;');
    expect(page.headers.get('content-security-policy')).toMatch(/^default-src 'none';/);
    expect(page.headers.get('x-content-type-options')).toBe('nosniff');
    expect(page.headers.get('cache-control')).toBe('no-store');
  });

  it('threat 22: no control character and none that changes direction leaves it raw', async () => {
    const hostile = 'evil\n\u001b[31m\u009b2J\u202e\u2066name';
    for (const path of ['/', '/status']) {
      const { text } = await get({ view: viewOf(someStatus(hostile)) }, path);
      expect([path, /[^\P{Cc}\n]|\p{Cf}|\\u001b/u.test(text)]).toEqual([path, false]);
      expect(text).toContain('{202e}');
    }
  });

  describe('signing in', () => {
    const host = { host: 'sidecar:1', origin: 'https://sidecar:1' };
    const signIn = (on: ReturnType<typeof app>, token: string, headers: Record<string, string> = host) =>
      on.request('/sign-in', { method: 'POST', headers, body: new URLSearchParams({ token }) });
    const open = (changes: Partial<StatusAppSettings> = {}) =>
      app({ host: '0.0.0.0', hosts: ['sidecar'], token: () => 'tok', isSecure: true, ...changes });

    it('threat 44: gives a cookie that no script, no other site and no plain connection sees', async () => {
      const one = open();
      const answer = await signIn(one, 'tok');
      expect([answer.status, answer.headers.get('location')]).toEqual([303, '/']);
      const cookie = answer.headers.get('set-cookie') ?? '';
      expect(cookie).toMatch(/^__Host-reconcile=[\w-]{43}; Path=\/; HttpOnly; Secure; SameSite=Strict$/);
      expect(cookie).not.toContain('tok;');
      const page = await one.request('/', { headers: { host: 'sidecar:1', cookie: cookie.split(';')[0] ?? '' } });
      expect([page.status, (await page.text()).includes('Sign out')]).toEqual([200, true]);
    });

    it('asks for the token on the page of each target too, and shows it to a browser alone', async () => {
      const headers = { host: 'sidecar:1', accept: 'text/html' };
      const ask = async (path: string): Promise<readonly unknown[]> => {
        const answer = await open({ below: () => viewOf() }).request(path, { headers });
        return [answer.status, (await answer.text()).includes('Sign in to reconcile')];
      };
      for (const page of ['/', '/targets/eu/', '/targets/eu'])
        expect([page, ...(await ask(page))]).toEqual([page, 401, true]);
      expect(await ask('/targets/eu/status')).toEqual([401, false]);
    });

    it('leads to the page of a target whose address was typed without its last slash', async () => {
      const answer = await app({ below: () => viewOf() }).request('/targets/eu', { headers: { host: 'localhost' } });
      expect([answer.status, answer.headers.get('location')]).toEqual([302, '/targets/eu/']);
    });

    it('threat 44: ends a session when it is signed out, when the token is another one, and after twelve hours', async () => {
      let [token, now] = ['tok', 0];
      const one = open({ token: () => token, clock: { ...systemClock, now: () => now } });
      const begin = async (): Promise<string> =>
        (await signIn(one, token)).headers.get('set-cookie')?.split(';')[0] ?? '';
      const status = async (cookie: string): Promise<number> =>
        (await one.request('/status', { headers: { host: 'sidecar', cookie } })).status;
      const first = await begin();
      expect(await status(first)).toBe(200);
      await one.request('/sign-out', { method: 'POST', headers: { ...host, cookie: first } });
      expect(await status(first)).toBe(401);
      const second = await begin();
      token = 'new';
      expect(await status(second)).toBe(401);
      const third = await begin();
      // Whoever signs in once more has one session, not two.
      const again = await signIn(one, token, { ...host, cookie: third });
      expect(await status(third)).toBe(401);
      expect(await status(again.headers.get('set-cookie')?.split(';')[0] ?? '')).toBe(200);
      const fourth = await begin();
      now += 12 * 3_600_000 - 1;
      expect(await status(fourth)).toBe(200);
      now += 1;
      expect(await status(fourth)).toBe(401);
    });

    it('threat 45: after ten wrong tokens looks at none from there for ten seconds, by form or Bearer', async () => {
      let now = 0;
      const one = open({ clock: { ...systemClock, now: () => now } });
      const bearer = (token: string) =>
        one.request('/status', { headers: { host: 'sidecar', authorization: `Bearer ${token}` } });
      for (let guess = 0; guess < 5; guess++) {
        expect((await signIn(one, `wrong${guess}`)).status).toBe(401);
        expect((await bearer(`wrong${guess}`)).status).toBe(401);
      }
      expect([(await signIn(one, 'tok')).status, (await bearer('tok')).status]).toEqual([429, 429]);
      now += 10_001;
      expect((await bearer('tok')).status).toBe(200);
    });

    it('threat 45: takes all addresses of one IPv6 network for one, however they are written', async () => {
      const one = open();
      const from = async (remoteAddress: string): Promise<number> =>
        (
          await one.request(
            '/status',
            { headers: { host: 'sidecar', authorization: 'Bearer x' } },
            { incoming: { socket: { remoteAddress } } },
          )
        ).status;
      for (const network of ['2001:db8::', 'fe80::', '2001:db8:0:1:', '2001:db8:1:2:']) {
        const answers: number[] = [];
        for (let guess = 1; guess <= 11; guess++) answers.push(await from(`${network}${guess}:2:3:4`));
        expect([network, answers[9], answers[10]]).toEqual([network, 401, 429]);
      }
    });

    it('threat 46: refuses what a page of another origin asks, and what comes under another name', async () => {
      const one = open();
      for (const origin of ['https://evil.example', 'null', 'https://sidecar:2']) {
        expect([origin, (await signIn(one, 'tok', { ...host, origin })).status]).toEqual([origin, 403]);
        const answer = await one.request('/status', {
          headers: { ...host, origin, authorization: 'Bearer tok' },
        });
        expect([origin, answer.status]).toEqual([origin, 403]);
      }
      const rebound = { host: 'evil.example', origin: 'https://evil.example' };
      expect((await signIn(one, 'tok', rebound)).status).toBe(421);
      // Beyond loopback an address of its own is enough; a name that looks like one is not.
      for (const [name, status] of [
        ['10.0.0.1', 303],
        ['[fd00::1]', 303],
        ['cafe.de', 421],
      ] as const) {
        const asked = { host: name, origin: `https://${name}` };
        expect([name, (await signIn(open({ hosts: [] }), 'tok', asked)).status]).toEqual([name, status]);
      }
    });

    it('takes no body that is larger than a token', async () => {
      expect((await signIn(open(), 'x'.repeat(5000))).status).toBe(413);
    });

    it('takes a form in chunks over a socket, and no more chunks than a token needs', async () => {
      const server = await listen(app({ token: () => 'tok', isSecure: true }), { host: '127.0.0.1', port: 0 });
      if (!server.ok) throw new Error(server.error);
      const post = (chunks: readonly string[]): Promise<number | undefined> =>
        new Promise((resolve, reject) => {
          const asked = httpRequest(`${server.value.url}/sign-in`, { method: 'POST' }, (answer) =>
            resolve(answer.resume().statusCode),
          ).on('error', reject);
          for (const chunk of chunks) asked.write(chunk);
          asked.end();
        });
      expect(await post(['token=', 't', 'ok'])).toBe(303);
      expect(await post(['token=', 'wrong'])).toBe(401);
      expect(await post(['token=', 'x'.repeat(3000), 'x'.repeat(3000)])).toBe(413);
      await server.value.close();
    });
  });

  it('gives JSON that follows its schema', async () => {
    const validate = new Ajv2020({ strict: false }).compile(statusSchema);
    for (const status of [someStatus(), createStatus('1', 'x', 0), createStalledStatus('1', 'bad', 0)]) {
      const { text, headers } = await get({ view: viewOf(status) }, '/api/v1/status');
      expect(headers.get('content-type')).toBe('application/json');
      expect([validate(JSON.parse(text)), validate.errors]).toEqual([true, null]);
    }
    expect((await get({}, '/api/v1/nothing')).status).toBe(404);
  });

  it('tells by an event when there is something else to show', async () => {
    let status = someStatus('one');
    const view = createPages({ status: () => status, running: null });
    const stop = new AbortController();
    const answer = await app({ view }).request('/api/v1/events', {
      headers: { host: '127.0.0.1' },
      signal: stop.signal,
    });
    const reader = answer.body?.getReader();
    const next = async (): Promise<string> => new TextDecoder().decode((await reader?.read())?.value);
    expect(await next()).toContain('event: state');
    status = someStatus('two');
    expect(await next()).toContain('event: state');
    await reader?.cancel();
    stop.abort();
  });

  it('writes a plan and the rules once for all who ask, until there is something else to show', () => {
    let status = someStatus('one');
    const sources = { status: () => status, running: null };
    const write = (name: string, asked = '') => createPages(sources).document(name, new URLSearchParams(asked), false);
    for (const name of ['plan', 'rules']) {
      const first = write(name);
      expect(write(name)).toBe(first);
      status = someStatus(`two ${name}`);
      expect(write(name)).not.toBe(first);
    }
    expect(write('rules', 'q=x')).not.toBe(write('rules', 'q=x'));
  });

  it('threat 24: holds three large answers for slow readers at once, and answers probes beside them', async () => {
    const all = Array.from({ length: 4 }, () => Buffer.alloc(30_000_000, 0x20));
    const view = { ...viewOf(), document: (name: string) => all[Number(name)] ?? null };
    const where = parseListen('127.0.0.1:0');
    const server = where.ok ? await listen(app({ view }), where.value) : where;
    if (!server.ok) throw new Error(server.error);
    const ask = (path: string): Promise<IncomingMessage> =>
      new Promise((resolve) => httpRequest(`${server.value.url}${path}`, { agent: false }, resolve).end());
    const before = process.memoryUsage().arrayBuffers;
    // None of them reads what it asked for; those of one answer share its bytes.
    const slow = await Promise.all(
      ['0', '1', ...Array.from({ length: 20 }, () => '2')].map((name) => ask(`/api/v1/${name}`)),
    );
    expect(new Set(slow.map(({ statusCode }) => statusCode))).toEqual(new Set([200]));
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(200_000_000);
    // One that is new takes the place of the oldest, whose readers stand still.
    expect((await ask('/api/v1/3')).statusCode).toBe(200);
    expect((await ask('/healthz')).statusCode).toBe(200);
    const read = async (message: IncomingMessage) => Buffer.concat(await message.toArray());
    expect((await read(await ask('/api/v1/2'))).equals(all[2] as Buffer)).toBe(true);
    await expect(read(slow[0] as IncomingMessage)).rejects.toThrow('aborted');
    expect((await read(slow[1] as IncomingMessage)).equals(all[1] as Buffer)).toBe(true);
    await server.value.close();
  });

  it('threat 24: begins no stream for a HEAD, which nobody would end', async () => {
    const [one, stop] = [app(), new AbortController()];
    const ask = (method: string) =>
      one.request('/api/v1/events', { method, headers: { host: '127.0.0.1' }, signal: stop.signal });
    for (let call = 0; call < 25; call++) expect((await ask('HEAD')).status).toBe(200);
    const stream = await ask('GET');
    expect(stream.status).toBe(200);
    await stream.body?.cancel();
    stop.abort();
  });

  it('shows e-mail addresses to people who signed in, and to nobody else', async () => {
    const view = viewOf(someStatus('carol@example.com'));
    for (const path of ['/', '/status', '/?q=carol@example.com'])
      expect([path, (await get({ view }, path)).text.includes('carol@')]).toEqual([path, false]);
    const signedIn = { view, token: () => 'tok' };
    expect((await get(signedIn, '/', { authorization: 'Bearer tok' })).text).toContain('carol@example.com');
  });

  it('threat 22: writes no control character of the question back into its form', async () => {
    for (const field of ['q', 'destination', 'user']) {
      const { text } = await get({}, `/?${field}=%1b%5b31mred%e2%80%ae`);
      expect([field, text.includes('[31mred'), /[^\P{Cc}\n]|\p{Cf}/u.test(text)]).toEqual([field, true, false]);
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
