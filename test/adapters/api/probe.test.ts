import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { type AddressInfo, createServer } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, describe, expect, it } from 'vitest';
import { checkDiscovery, readCertificate, readServerTime } from '../../../src/adapters/api/probe.ts';

const certificates = new URL('./certificates/', import.meta.url);
const caFile = new URL('ca.pem', certificates).pathname;
const { signal } = new AbortController();
const probe = { caFile, signal, timeoutMs: 10_000 };
const servers: http.Server[] = [];

afterEach(() => {
  for (const server of servers.splice(0)) {
    if (server instanceof http.Server) server.closeAllConnections();
    server.close();
  }
});

async function listen(server: http.Server, scheme: string): Promise<URL> {
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return new URL(`${scheme}://localhost:${(server.address() as AddressInfo).port}`);
}

function serveTls(name: string): Promise<URL> {
  const pem = (suffix: string): Buffer => readFileSync(new URL(`${name}.${suffix}`, certificates));
  return listen(
    https.createServer({ key: pem('key'), cert: pem('pem') }, (_request, response) => response.end('{}')),
    'https',
  );
}

describe('the probes of doctor', () => {
  it('read the server clock through an authority of its own, too', async () => {
    const url = await serveTls('localhost');
    expect(await readServerTime(url, { ...probe, now: () => 0 })).toMatchObject({ tookMs: 0 });
    expect(await readServerTime(url, { ...probe, caFile: null, now: () => 0 })).toBeNull();
  });

  it('tell in words why a certificate is not accepted', async () => {
    expect(await readCertificate(await serveTls('localhost'), probe)).toMatchObject({
      issuer: expect.any(String),
    });
    expect(await readCertificate(await serveTls('expired'), probe)).toBe("the server's certificate has expired");
    expect(await readCertificate(await serveTls('elsewhere'), probe)).toContain('another host name');
    expect(await readCertificate(await serveTls('localhost'), { ...probe, caFile: null })).toContain(
      'unknown authority',
    );
    expect(await readCertificate(new URL('https://127.0.0.1:1'), probe)).toBe('no connection (ECONNREFUSED)');
  });

  it('end in time when a server takes a connection and says nothing, whenever memory is cleaned up', async () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const cleaner = setInterval(collect, 20);
    try {
      const silent = await listen(http.createServer(), 'http');
      const mute = await listen(createServer() as http.Server, 'https');
      const began = performance.now();
      const short = { ...probe, timeoutMs: 300 };
      expect(await readServerTime(silent, { ...short, now: () => 0 })).toBeNull();
      expect(await readCertificate(mute, short)).toBe('no answer within 0.3 s');
      expect(await checkDiscovery(silent.href, signal, 300)).toBe('it cannot be fetched in time');
      expect(performance.now() - began).toBeLessThan(10_000);
    } finally {
      clearInterval(cleaner);
    }
  });

  it('ask nobody once they are stopped', async () => {
    const asked: (string | undefined)[] = [];
    const url = await listen(
      http.createServer(({ url }, response) => {
        asked.push(url);
        response.end('{}');
      }),
      'http',
    );
    const stopped = AbortSignal.abort();
    expect(await readServerTime(url, { ...probe, signal: stopped, now: () => 0 })).toBeNull();
    expect(await readCertificate(url, { ...probe, signal: stopped })).toBe('stopped');
    expect(await checkDiscovery(url.href, stopped)).toBe('it cannot be fetched in time');
    expect(asked).toEqual([]);
  });

  it('do not read a discovery document without end', async () => {
    const endless = http.createServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      const chunk = Buffer.alloc(100_000, 32);
      const write = (): void => {
        while (!response.destroyed && response.write(chunk));
        if (!response.destroyed) response.once('drain', write);
      };
      write();
    });
    const url = await listen(endless, 'http');
    expect(await checkDiscovery(url.href, signal)).toContain('larger than 1000000 bytes');
    endless.closeAllConnections();
  });
});
