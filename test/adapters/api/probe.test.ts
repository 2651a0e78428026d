import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { checkDiscovery, readCertificate, readServerTime } from '../../../src/adapters/api/probe.ts';

const certificates = new URL('./certificates/', import.meta.url);
const caFile = new URL('ca.pem', certificates).pathname;
const { signal } = new AbortController();
const servers: http.Server[] = [];

afterEach(() => {
  for (const server of servers.splice(0)) server.close();
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
    expect(await readServerTime(url, { caFile, signal, now: () => 0 })).toMatchObject({ tookMs: 0 });
    expect(await readServerTime(url, { caFile: null, signal, now: () => 0 })).toBeNull();
  });

  it('tell in words why a certificate is not accepted', async () => {
    expect(await readCertificate(await serveTls('localhost'), caFile, signal)).toMatchObject({
      issuer: expect.any(String),
    });
    expect(await readCertificate(await serveTls('expired'), caFile, signal)).toBe(
      "the server's certificate has expired",
    );
    expect(await readCertificate(await serveTls('elsewhere'), caFile, signal)).toContain('another host name');
    expect(await readCertificate(await serveTls('localhost'), null, signal)).toContain('unknown authority');
    expect(await readCertificate(new URL('https://127.0.0.1:1'), caFile, signal)).toBe('no connection (ECONNREFUSED)');
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
