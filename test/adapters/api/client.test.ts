import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders, type RequestListener, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, connect, createServer as createNetServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import nock from 'nock';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { type ApiClient, type ApiClientOptions, createApiClient } from '../../../src/adapters/api/client.ts';
import { Secret } from '../../../src/model/secret.ts';
import { startSimulator } from '../../../src/simulator/server.ts';
import { ForwardingDispatcher } from './forwarding-dispatcher.ts';

const canary = 'canary-7f3e"\\ä';
const token = 'canary-token-51c2';
const noProxy = { httpsProxy: '', httpProxy: '', noProxy: '' };
const closers: (() => unknown)[] = [];
const { signal } = new AbortController();
// Its import takes over `node:http` for good, also in the files that this worker runs next.
nock.restore();

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

function client(baseUrl: string, options: Partial<ApiClientOptions> = {}): ApiClient {
  const made = createApiClient({ baseUrl, token: () => token, ...options });
  if (!made.ok) throw new Error(made.error);
  closers.push(() => made.value.close());
  return made.value;
}

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const certificates = new URL('./certificates/', import.meta.url);
const authorities = new URL('ca.pem', certificates).pathname;

/** A CA file of its own for a test. */
function makeCaFile(content = 'ca.pem'): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'reconcile-ca-'));
  closers.push(() => rmSync(folder, { recursive: true }));
  cpSync(new URL(content, certificates), path.join(folder, 'ca.pem'));
  return path.join(folder, 'ca.pem');
}

function readPair(name: string): { readonly key: Buffer; readonly cert: Buffer } {
  const pem = (suffix: string): Buffer => readFileSync(new URL(`${name}.${suffix}`, certificates));
  return { key: pem('key'), cert: pem('pem') };
}

async function startTls(name: string, connection: 'close' | 'keep-alive') {
  const server = createTlsServer(readPair(name), (_, response) => {
    response.writeHead(200, { 'content-type': 'application/json', connection }).end('{"data":[]}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return Object.assign(server, { url: `https://localhost:${(server.address() as AddressInfo).port}` });
}

async function serveTls(name: string, connection: 'close' | 'keep-alive' = 'keep-alive'): Promise<string> {
  return (await startTls(name, connection)).url;
}

test('an error that quotes the token comes back without it', async () => {
  const url = await serve((request, response) => {
    const errors = { auth: [`no: ${request.headers.authorization}`], [token]: [Buffer.from(token).toString('base64')] };
    response.writeHead(422, { 'content-type': 'application/json' }).end(JSON.stringify({ errors }));
  });
  expect(await client(url).listRules(signal)).toMatchObject({
    status: 422,
    body: { errors: { auth: ['no: Bearer (secret)'], '(secret)': ['(secret)'] } },
  });
});

describe('words of the server that quote a secret', () => {
  const long = 'Canary_token-51c2.of-real/length';
  const hexOf = (text: string): string => Buffer.from(text).toString('hex');
  const quotes: Readonly<Record<string, unknown>> = {
    'URL-encoded in lower case': { errors: { a: [long.replace('/', '%2f')] } },
    'URL-encoded as a whole': { errors: { a: [hexOf(long).replace(/../g, '%$&')] } },
    'as entities of HTML': { errors: { a: [long.replace('/', '&#47;').replace('_', '&#x5f;')] } },
    'as code points': { errors: { a: [hexOf(long).replace(/../g, '\\u00$&')] } },
    'inside base64 of more': { errors: { a: [btoa(`authorization: Bearer ${long}; x`)] } },
    'inside base64 of more, one further': { errors: { a: [btoa(`thorization: Bearer ${long};`)] } },
    'with a line break': { errors: { a: [`${long.slice(0, 9)}\n${long.slice(9)}`] } },
    'in capitals': { errors: { a: [long.toUpperCase()] } },
    'over two texts': { errors: { a: [long.slice(0, 9), long.slice(9)] } },
    'over two members': { errors: { a: [long.slice(0, 9)], b: [long.slice(9)] } },
    'over a name and a text': { errors: { [long.slice(0, 9)]: [long.slice(9)] } },
  };
  for (const [how, errors] of Object.entries(quotes)) {
    test(`are not shown: ${how}`, async () => {
      const url = await serve((_, response) => {
        response.writeHead(422, { 'content-type': 'application/json' }).end(JSON.stringify(errors));
      });
      const answer = await client(url, { token: () => long }).listRules(signal);
      expect(answer).toMatchObject({ kind: 'answer', status: 422, body: undefined });
    });
  }

  test('are not shown where they name the host of a redirect', async () => {
    const url = await serve((_, response) =>
      response.writeHead(302, { location: `https://${hexOf(long)}.example` }).end(),
    );
    const answer = await client(url, { token: () => long }).listRules(signal);
    expect(answer).toMatchObject({ kind: 'no-answer', code: 'redirect' });
    expect(JSON.stringify(answer)).not.toContain(hexOf(long));
  });

  test('make a success count for nothing', async () => {
    const url = await serve((_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ data: { endpoint: long } }));
    });
    const answer = await client(url, { token: () => long }).getConfiguration(signal);
    expect(answer).toMatchObject({ kind: 'no-answer', sent: 'maybe', code: 'not-json', status: 200 });
    expect(JSON.stringify(answer)).not.toContain(long);
  });

  test('are not shown after a refused PATCH sent it', async () => {
    const url = await serve((_, response) => {
      response.writeHead(422, { 'content-type': 'application/json' }).end(JSON.stringify({ errors: { a: [canary] } }));
    });
    const api = client(url);
    await api.updateConfiguration({ client_secret: Secret.of(canary) }, signal);
    expect(await api.deleteRule('x', signal)).toMatchObject({ body: { errors: { a: ['(secret)'] } } });
  });

  test.each([
    ['nested deeper than the stack is', () => `${'['.repeat(30_000)}${']'.repeat(30_000)}`],
    ['millions of words', () => JSON.stringify({ errors: { a: Array.from({ length: 1_000_000 }, () => 'x') } })],
  ])('are not shown, and end nothing: %s', async (_how, body) => {
    const url = await serve((_, response) =>
      response.writeHead(422, { 'content-type': 'application/json' }).end(body()),
    );
    expect(await client(url).listRules(signal)).toMatchObject({ kind: 'answer', status: 422, body: undefined });
  });

  test('are not looked through for more secrets than a server can have: that took longer than every deadline', async () => {
    const many = Array.from({ length: 50_000 }, (_, index) => ({ client_secret: `secret-${index}` }));
    const url = await serve((request, response) => {
      const isRead = request.method === 'GET';
      response.writeHead(isRead ? 200 : 422, { 'content-type': 'application/json' });
      response.end(
        JSON.stringify(isRead ? { data: many } : { errors: { a: Array.from({ length: 999 }, () => 'no') } }),
      );
    });
    const api = client(url);
    await api.getConfiguration(signal);
    const started = performance.now();
    expect(await api.deleteRule('x', signal)).toMatchObject({ kind: 'answer', status: 422, body: undefined });
    expect(performance.now() - started).toBeLessThan(3000);
  });
});

test('a 404 of a length that nobody reads does not mean that a rule is gone', async () => {
  const url = await serve((_, response) => {
    response.writeHead(404, { 'content-type': 'application/json' }).end(JSON.stringify({ errors: 'x'.repeat(70_000) }));
  });
  expect(await client(url).deleteRule('x', signal)).toMatchObject({ kind: 'no-answer', code: 'too-large' });
});

test('a long page of another server is called what it is, so that the base URL is looked at', async () => {
  const url = await serve((_, response) => {
    response.writeHead(404, { 'content-type': 'text/html' }).end(`<html>${'x'.repeat(70_000)}</html>`);
  });
  expect(await client(url).deleteRule('x', signal)).toMatchObject({
    kind: 'no-answer',
    code: 'not-json',
    message: expect.stringContaining('is the base URL right?'),
  });
});

test('a list that is as it was comes without a body to whoever knows it, and to nobody else', async () => {
  const ids = ['a', 'a', 'a', 'b', 'a'];
  const url = await serve((_, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ data: [ids.shift()] }));
  });
  const api = client(url);
  const list = async (known?: object): Promise<{ readonly body: unknown; readonly version?: object }> => {
    const answer = await api.listRules(signal, known);
    if (answer.kind !== 'answer') throw new Error(answer.message);
    return answer;
  };
  const first = await list();
  expect(first.body).toEqual({ data: ['a'] });
  expect(await list(first.version)).toMatchObject({ body: undefined });
  const unasked = await list({});
  expect(unasked.body).toEqual({ data: ['a'] });
  expect(unasked.version).toBe(first.version);
  const other = await list(first.version);
  expect(other.body).toEqual({ data: ['b'] });
  expect(other.version).not.toBe(first.version);
  expect((await list(first.version)).body).toEqual({ data: ['a'] });
});

describe('the base URL', () => {
  for (const [baseUrl, because] of [
    ['vpn.example.com', 'not a URL'],
    ['ftp://vpn.example.com', 'must start with https://'],
    ['https://me:secret@vpn.example.com', 'user name or password'],
    ['https://vpn.example.com/?a=b', 'query'],
    ['http://vpn.example.com', '--allow-http'],
    ['http://127.0.0.1.example.com', '--allow-http'],
    ['https://vpn.example.com/v0', 'before /v0'],
  ] as const) {
    test(`${baseUrl} is refused with what to change`, () => {
      const made = createApiClient({ baseUrl, token: () => token });
      expect(made.ok ? '' : made.error).toContain(because);
      expect(made.ok ? '' : made.error).not.toContain('secret');
    });
  }

  for (const baseUrl of ['http://localhost:1', 'http://[::1]:1', 'http://127.3.2.1', 'https://vpn.example.com/a/b/']) {
    test(`${baseUrl} is fine`, () => {
      expect(createApiClient({ baseUrl, token: () => token }).ok).toBe(true);
    });
  }

  test('a path prefix stands before /v0', async () => {
    let path = '';
    const url = await serve((request, response) => {
      path = request.url ?? '';
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"data":[]}');
    });
    await client(`${url}/behind/proxy/`).listRules(signal);
    expect(path).toBe('/behind/proxy/v0/rules');
  });

  test('a CA file that is not there is refused at once', () => {
    const made = createApiClient({ baseUrl: 'https://localhost', token: () => token, caFile: '/no/such.pem' });
    expect(made.ok ? '' : made.error).toContain('/no/such.pem cannot be read (ENOENT)');
  });

  test('a CA file with a certificate that is not whole is refused at once', () => {
    const caFile = makeCaFile();
    const whole = readFileSync(caFile, 'utf8');
    writeFileSync(caFile, whole + whole.slice(0, 400));
    const made = createApiClient({ baseUrl: 'https://localhost', token: () => token, caFile });
    expect(made.ok ? '' : made.error).toContain(
      `the CA file ${caFile} holds no PEM certificate, or one that is damaged or cut off`,
    );
  });
});

describe('a request', () => {
  test('carries exactly the headers that the server needs, and reuses connections', async () => {
    const seen: IncomingHttpHeaders[] = [];
    const ports = new Set<number | undefined>();
    const url = await serve((request, response) => {
      seen.push(request.headers);
      ports.add(request.socket.remotePort);
      request.resume();
      response.writeHead(200, { 'content-type': 'application/json; charset=utf-8' }).end('{"data":[]}');
    });
    const api = client(url);
    for (let round = 0; round < 10; round++) {
      await api.listRules(signal);
      await api.deleteRule('11111111-1111-4111-8111-111111111111', signal);
    }
    for (const headers of seen) {
      expect(headers).toMatchObject({
        accept: 'application/json',
        'content-type': 'application/json',
        authorization: `Bearer ${token}`,
      });
    }
    expect(ports.size).toBeLessThan(4);
  });

  test('without a usable token is never sent, and the message does not show the token', async () => {
    let calls = 0;
    const url = await serve((_, response) => {
      calls++;
      response.end();
    });
    const missing = client(url, {
      token: () => {
        throw new Error(`cannot open ${canary}`);
      },
    });
    const broken = client(url, { token: () => `${token}\r\nX-Injected: 1` });
    for (const api of [missing, broken]) {
      const answer = await api.listRules(signal);
      expect(answer).toMatchObject({ kind: 'no-answer', sent: 'no', code: 'token' });
      expect(JSON.stringify(answer)).not.toContain('canary');
    }
    expect(calls).toBe(0);
  });

  test('that the caller has stopped is not sent', async () => {
    const answer = await client('http://127.0.0.1:1').listRules(AbortSignal.abort());
    expect(answer).toMatchObject({ kind: 'no-answer', sent: 'no', code: 'aborted' });
  });

  test('that is stopped while it waits for a connection ends at once, and is not sent later', async () => {
    const answers: ServerResponse[] = [];
    const url = await serve((_, response) => void answers.push(response));
    const api = client(url, { connections: 1 });
    const first = api.listRules(signal);
    await vi.waitFor(() => expect(answers).toHaveLength(1));
    const stop = new AbortController();
    const second = api.deleteRule('r1', stop.signal);
    stop.abort();
    expect(await second).toMatchObject({ kind: 'no-answer', code: 'aborted' });
    answers[0]?.setHeader('content-type', 'application/json').end('{"data":[]}');
    expect(await first).toMatchObject({ status: 200 });
    const third = api.listRules(signal);
    await vi.waitFor(() => expect(answers).toHaveLength(2));
    expect(answers[1]?.req.method).toBe('GET');
    answers[1]?.end();
    await third;
  });

  test('follows no redirect, takes the token nowhere else, and says where it was pointed, host only', async () => {
    let stolen = 0;
    const thief = await serve((_, response) => {
      stolen++;
      response.end();
    });
    const url = await serve((_, response) => {
      response.writeHead(302, { location: `${thief}/take?session=${encodeURIComponent(canary)}` }).end();
    });
    const answer = await client(url).listRules(signal);
    expect(answer).toMatchObject({ kind: 'no-answer', code: 'redirect', status: 302 });
    expect(answer.kind === 'no-answer' ? answer.message : '').toContain(new URL(thief).host);
    expect(JSON.stringify(answer)).not.toContain('canary');
    expect(stolen).toBe(0);
  });

  test('a proxy that never answers does not keep the client from being closed', async () => {
    const silent = createNetServer((socket) => closers.push(() => socket.destroy()));
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    closers.push(() => silent.close());
    const httpsProxy = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const api = client('https://vpn.example', { proxy: { ...noProxy, httpsProxy }, requestTimeoutMs: 200 });
    expect(await api.listRules(signal)).toMatchObject({ kind: 'no-answer', code: 'timeout' });
    await api.close();
  });

  test('the answer to providers is waited for longer than --timeout: the server reads their documents first', async () => {
    const answers: (() => unknown)[] = [];
    const url = await serve((_, response) => void answers.push(() => response.writeHead(422).end('{"errors":{}}')));
    const api = client(url, { requestTimeoutMs: 200 });
    const slow = api.updateConfiguration({ openid_connect_providers: [] }, signal);
    expect(await api.updateConfiguration({ default_client_mtu: 1300 }, signal)).toMatchObject({ code: 'timeout' });
    for (const answer of answers) answer();
    expect(await slow).toMatchObject({ kind: 'answer', status: 422 });
  });

  test('a redirect counts though its body never ends', async () => {
    const url = await serve((_, response) => {
      response.writeHead(302, { location: 'https://elsewhere.example/' }).write('<html>');
    });
    const answer = await client(url, { requestTimeoutMs: 200 }).listRules(signal);
    expect(answer).toMatchObject({ kind: 'no-answer', code: 'redirect', status: 302 });
  });

  test('an interim answer says nothing of the answer: neither its length nor its status', async () => {
    const interim = 'HTTP/1.1 103 Early Hints\r\ncontent-length: 999999999\r\n\r\n';
    let isCut = false;
    const url = await serve((request, response) => {
      request.socket.write(interim, () => {
        if (isCut) request.socket.destroy();
        else response.writeHead(200, { 'content-type': 'application/json' }).end('{"data":[]}');
      });
    });
    const api = client(url);
    expect(await api.listRules(signal)).toMatchObject({ kind: 'answer', status: 200 });
    isCut = true;
    expect(await api.listRules(signal)).toMatchObject({ kind: 'no-answer', code: 'reset', status: null });
  });

  test('ends when the body is larger than the limit, announced or not', async () => {
    for (const announced of [true, false]) {
      const url = await serve((_, response) => {
        response.writeHead(200, {
          'content-type': 'application/json',
          ...(announced ? { 'content-length': 3_000_000 } : {}),
        });
        response.end(Buffer.alloc(3_000_000, 0x20));
      });
      const answer = await client(url, { maxBodyBytes: 1_000_000 }).listRules(signal);
      expect(answer).toMatchObject({ kind: 'no-answer', code: 'too-large' });
    }
  });

  test('ends when the body is millions of values, which are few bytes and much memory', async () => {
    const serveText = (text: string) =>
      serve((_, response) => {
        response.writeHead(200, { 'content-type': 'application/json' }).end(text);
      });
    for (const value of ['[],', '1.5,']) {
      const bomb = await client(await serveText(`{"data": [${value.repeat(2_100_000)}0]}`)).listRules(signal);
      expect(bomb).toMatchObject({ kind: 'no-answer', code: 'too-large' });
    }
    const times = { inserted_at: '2026-01-01T00:00:00.000000Z', updated_at: '2026-01-01T00:00:00.000000Z' };
    const rule = { id: 'x', action: 'drop', destination: '10.0.0.1', port_range: null, port_type: null, user_id: null };
    const rules = `{"data": [${`${JSON.stringify({ ...rule, ...times })},`.repeat(150_000)}{}]}`;
    expect(await client(await serveText(rules)).listRules(signal)).toMatchObject({ kind: 'answer', status: 200 });
  });

  test.each([
    ['Sun, 06 Nov 1994 08:49:37 GMT', 784_111_777_000],
    ['yesterday', undefined],
  ])('the server’s time is that of its Date: %s', async (date, serverTime) => {
    const url = await serve((_request, response) => {
      response.setHeader('date', date);
      response.setHeader('content-type', 'application/json');
      response.end('{}');
    });
    const answer = await client(url).listRules(signal);
    expect(answer.kind === 'answer' && answer.serverTime).toBe(serverTime);
  });

  test('an error status counts whatever page comes with it; a 404 page does not mean that a rule is gone', async () => {
    let status = 502;
    const url = await serve((_, response) => {
      response.writeHead(status, { 'content-type': 'text/html', 'retry-after': '3' }).end('<html>no</html>');
    });
    const api = client(url);
    expect(await api.deleteRule('x', signal)).toMatchObject({
      kind: 'answer',
      status,
      body: undefined,
      retryAfterMs: 3000,
    });
    status = 404;
    expect(await api.deleteRule('x', signal)).toMatchObject({ kind: 'no-answer', code: 'not-json', status: 404 });
  });
});

describe('secrets', () => {
  test('reach the server as they are, and come back from its errors in no spelling', async () => {
    let received = '';
    const url = await serve((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        received = Buffer.concat(chunks).toString();
        const base64 = Buffer.from(canary).toString('base64');
        const hex = Buffer.from(canary).toString('hex').toUpperCase();
        const errors = {
          provider: [`${canary} is bad`, encodeURIComponent(canary), base64, JSON.stringify(canary), hex],
        };
        response.writeHead(422, { 'content-type': 'application/json' }).end(JSON.stringify({ errors }));
      });
    });
    const body = { openid_connect_providers: [{ id: 'a', client_secret: Secret.of(canary) }] };
    const answer = await client(url).updateConfiguration(body, signal);
    expect(JSON.parse(received)).toEqual({
      configuration: { openid_connect_providers: [{ id: 'a', client_secret: canary }] },
    });
    const shown = JSON.stringify(answer);
    expect(answer).toMatchObject({ kind: 'answer', status: 422 });
    expect(shown).not.toContain('canary');
    expect(shown).not.toContain(Buffer.from(canary).toString('base64'));
    expect(shown.toLowerCase()).not.toContain(Buffer.from(canary).toString('hex'));
  });

  test('that the Configuration holds come back from no error either, whatever was sent', async () => {
    const stored = {
      openid_connect_providers: [{ client_secret: canary }],
      saml_identity_providers: [{ metadata: '' }],
    };
    const url = await serve((request, response) => {
      const isRead = request.method === 'GET';
      const errors = { logo: [`not beside ${canary}`], mtu: [encodeURIComponent(canary)] };
      response.writeHead(isRead ? 200 : 422, { 'content-type': 'application/json' });
      response.end(JSON.stringify(isRead ? { data: stored } : { errors }));
    });
    const api = client(url);
    expect(await api.getConfiguration(signal)).toMatchObject({ status: 200, body: { data: stored } });
    const scrubbed = { status: 422, body: { errors: { logo: ['not beside (secret)'], mtu: ['(secret)'] } } };
    expect(await api.updateConfiguration({ default_client_mtu: 1 }, signal)).toMatchObject(scrubbed);
    expect(await api.deleteRule('x', signal)).toMatchObject(scrubbed);
  });

  test('without a value here are never sent', async () => {
    const body = { openid_connect_providers: [{ client_secret: Secret.unknown() }] };
    const answer = await client('http://127.0.0.1:1').updateConfiguration(body, signal);
    expect(answer).toMatchObject({ kind: 'no-answer', sent: 'no', code: 'unknown-secret' });
  });
});

describe('a proxy', () => {
  test('carries the calls where the settings say so, past names that NO_PROXY lists, and otherwise is not used', async () => {
    const url = await serve((_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"data":[]}');
    });
    const tunnels: string[] = [];
    const proxy = createServer();
    proxy.on('connect', (request, socket: Socket) => {
      tunnels.push(String(request.url));
      const upstream = connect(Number(new URL(url).port), '127.0.0.1', () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\n');
        upstream.pipe(socket).pipe(upstream);
      });
      socket.on('error', () => upstream.destroy());
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    const httpProxy = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    try {
      expect(await client(url).listRules(signal)).toMatchObject({ status: 200 });
      expect(
        await client(url, { proxy: { httpsProxy: '', httpProxy, noProxy: '127.0.0.1' } }).listRules(signal),
      ).toMatchObject({
        status: 200,
      });
      expect(tunnels).toEqual([]);
      expect(await client(url, { proxy: { ...noProxy, httpProxy } }).listRules(signal)).toMatchObject({ status: 200 });
      expect(tunnels).toEqual([new URL(url).host]);
    } finally {
      proxy.closeAllConnections();
      proxy.close();
    }
  });

  test('that is no address is refused by its variable, unquoted', () => {
    const options = { baseUrl: 'https://vpn.example', token: () => 'a-token' };
    for (const httpsProxy of ['http://user:secret@', 'ftp://user:secret@proxy', 'proxy:3128']) {
      const error = expect.stringMatching(/^HTTPS_PROXY or HTTP_PROXY is not (?!.*secret)/);
      expect(createApiClient({ ...options, proxy: { ...noProxy, httpsProxy } })).toEqual({ ok: false, error });
    }
  });

  test.each([
    [407, /the proxy wants a user and password/],
    [403, /the proxy answered 403 and did not connect/],
    [502, /the proxy answered 502 and did not connect/],
  ])('that answers %i is named, not the server, and nothing was sent', async (status, message) => {
    const proxy = createServer();
    proxy.on('connect', (_, socket: Socket) => socket.end(`HTTP/1.1 ${status} No\r\ncontent-length: 0\r\n\r\n`));
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    const httpsProxy = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    const answer = await client('https://vpn.example', { proxy: { ...noProxy, httpsProxy } }).deleteRule('1', signal);
    expect(answer).toMatchObject({ sent: 'no', code: 'unreachable', message: expect.stringMatching(message) });
    proxy.close();
  });

  test.each([
    ['http://127.0.0.1:1', 'no connection to the proxy: the connection was refused; check HTTPS_PROXY'],
    ['http://proxy.invalid:3128', 'no connection to the proxy: the host name'],
  ])('that cannot be reached is named, not the server: %s', async (httpsProxy, message) => {
    const answer = await client('https://vpn.example', { proxy: { ...noProxy, httpsProxy } }).listRules(signal);
    expect(answer).toMatchObject({ sent: 'no', code: 'unreachable', message: expect.stringContaining(message) });
  });
});

describe('TLS', () => {
  test('a certificate of an unknown authority is refused, and accepted with its CA file', async () => {
    const url = await serveTls('localhost');
    const answer = await client(url).listRules(signal);
    expect(answer).toMatchObject({ kind: 'no-answer', sent: 'no', code: 'tls' });
    expect(answer.kind === 'no-answer' ? answer.message : '').toContain('--ca-file');
    expect(await client(url, { caFile: authorities }).listRules(signal)).toMatchObject({ kind: 'answer', status: 200 });
  });

  test('a certificate of another authority is accepted once the CA file is replaced, without a restart', async () => {
    const caFile = makeCaFile('elsewhere.pem');
    const api = client(await serveTls('localhost'), { caFile });
    expect(await api.listRules(signal)).toMatchObject({ kind: 'no-answer', sent: 'no', code: 'tls' });
    cpSync(authorities, caFile);
    expect(await api.listRules(signal)).toMatchObject({ kind: 'answer', status: 200 });
    rmSync(caFile);
    expect(await api.listRules(signal)).toMatchObject({ kind: 'answer', status: 200 });
  });

  test.each([
    ['amid a certificate', readFileSync(authorities, 'utf8').slice(0, 400)],
    ['between two certificates', readFileSync(new URL('elsewhere.pem', certificates), 'utf8')],
  ])('a CA file that is cut %s takes away no trust, even on new connections', async (_, content) => {
    const caFile = makeCaFile();
    const api = client(await serveTls('localhost', 'close'), { caFile });
    expect(await api.listRules(signal)).toMatchObject({ kind: 'answer', status: 200 });
    writeFileSync(caFile, content);
    expect(await api.listRules(signal)).toMatchObject({ kind: 'answer', status: 200 });
    expect(await api.deleteRule('a', signal)).toMatchObject({ kind: 'answer', status: 200 });
  });

  test('a new content that does not help is not taken: what worked works on', async () => {
    const caFile = makeCaFile();
    const server = await startTls('localhost', 'close');
    const api = client(server.url, { caFile });
    writeFileSync(caFile, readFileSync(new URL('elsewhere.pem', certificates)));
    server.setSecureContext(readPair('expired'));
    expect(await api.listRules(signal)).toMatchObject({ kind: 'no-answer', sent: 'no', code: 'tls' });
    server.setSecureContext(readPair('localhost'));
    expect(await api.listRules(signal)).toMatchObject({ kind: 'answer', status: 200 });
  });

  test('requests that fail together are all made again with the new content', async () => {
    const caFile = makeCaFile('elsewhere.pem');
    const api = client(await serveTls('localhost'), { caFile });
    cpSync(authorities, caFile);
    const answers = await Promise.all(Array.from({ length: 20 }, (_, id) => api.deleteRule(String(id), signal)));
    expect(new Set(answers.map(({ kind }) => kind))).toEqual(new Set(['answer']));
  });

  test('NODE_TLS_REJECT_UNAUTHORIZED does not switch the check of certificates off', async () => {
    const url = await serveTls('localhost');
    process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0';
    try {
      expect(await client(url).listRules(signal)).toMatchObject({ kind: 'no-answer', code: 'tls' });
    } finally {
      delete process.env['NODE_TLS_REJECT_UNAUTHORIZED'];
    }
  });

  for (const [name, because] of [
    ['elsewhere', 'another host name'],
    ['expired', 'has expired'],
  ] as const) {
    test(`a certificate that is for ${name === 'expired' ? 'the past' : 'another host'} is refused, and the message says so`, async () => {
      const answer = await client(await serveTls(name), { caFile: authorities }).listRules(signal);
      expect(answer).toMatchObject({ kind: 'no-answer', sent: 'no', code: 'tls' });
      expect(answer.kind === 'no-answer' ? answer.message : '').toContain(because);
    });
  }

  test('https against a plain http server gives a clear message', async () => {
    const url = await serve((_, response) => response.end());
    const answer = await client(url.replace('http:', 'https:')).listRules(signal);
    expect(answer).toMatchObject({ kind: 'no-answer', sent: 'no', code: 'tls' });
  });
});

describe('answers that nock makes, through a dispatcher of our own', () => {
  const origin = 'https://vpn.example.com';
  beforeEach(() => {
    nock.activate();
    nock.disableNetConnect();
  });
  afterEach(() => {
    nock.cleanAll();
    nock.enableNetConnect();
    nock.restore();
  });

  test('a connection that breaks is lost, maybe after sending, and named by its code', async () => {
    nock(origin).post('/v0/rules').replyWithError({ code: 'ECONNRESET' });
    const wire = {
      action: 'drop',
      destination: '10.0.0.0/8',
      port_range: null,
      port_type: null,
      user_id: null,
    } as const;
    const answer = await client(origin, { dispatcher: new ForwardingDispatcher() }).createRule(wire, signal);
    expect(answer).toMatchObject({ kind: 'no-answer', sent: 'maybe', code: 'reset' });
  });

  test('a refused connection is lost for sure', async () => {
    nock(origin).get('/v0/rules').replyWithError({ code: 'ECONNREFUSED' });
    const answer = await client(origin, { dispatcher: new ForwardingDispatcher() }).listRules(signal);
    expect(answer).toMatchObject({ kind: 'no-answer', sent: 'no', code: 'refused' });
  });

  test('Retry-After and the field messages arrive', async () => {
    nock(origin)
      .post('/v0/rules', { rule: { action: 'drop' } })
      .reply(422, { errors: { destination: ["can't be blank"] } }, { 'retry-after': '2' });
    const answer = await client(origin, { dispatcher: new ForwardingDispatcher() }).createRule(
      { action: 'drop' } as never,
      signal,
    );
    expect(answer).toEqual({
      kind: 'answer',
      status: 422,
      body: { errors: { destination: ["can't be blank"] } },
      retryAfterMs: 2000,
    });
  });
});

test('against the simulator each method does what it says', async () => {
  const simulator = await startSimulator({ token });
  closers.push(() => simulator.close());
  const api = client(simulator.url);
  const wire = { action: 'drop', destination: '10.0.0.0/8', port_range: null, port_type: null, user_id: null } as const;
  expect(await api.createRule(wire, signal)).toMatchObject({ kind: 'answer', status: 201 });
  const id = simulator.rules()[0]?.id ?? '';
  expect(await api.updateRule(id, { action: 'accept' }, signal)).toMatchObject({ kind: 'answer', status: 200 });
  expect(await api.updateConfiguration({ default_client_mtu: 1300 }, signal)).toMatchObject({ status: 200 });
  expect(await api.getConfiguration(signal)).toMatchObject({ status: 200 });
  expect(await api.listUsers(signal)).toMatchObject({ status: 200 });
  expect(await api.deleteRule(id, signal)).toMatchObject({ kind: 'answer', status: 204, body: undefined });
});
