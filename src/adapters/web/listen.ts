import { statSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { createSecureContext } from 'node:tls';
import { getRequestListener } from '@hono/node-server';
import { fail, getErrorCode, ok, type Result } from '../../model/result.ts';
import { readOperatorFile } from '../source/regular-file.ts';

export interface Listen {
  readonly host: string;
  readonly port: number;
}

/** A server that answers; `url` names the port that was really taken. */
export interface Listening {
  readonly url: string;
  close(): Promise<void>;
}

/** Reads `PORT`, `HOST:PORT` or `[IPv6]:PORT`; without a host: loopback. */
export function parseListen(text: string): Result<Listen, string> {
  const found = /^(?:(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]*):)?(\d{1,5})$/.exec(text);
  const port = Number(found?.[2]);
  if (found === null || port > 65535)
    return fail(`\`${text}\` is not an address to listen on; write HOST:PORT, such as 127.0.0.1:8080`);
  const host = (found[1] ?? '').replace(/^\[|\]$/g, '');
  return ok({ host: host === '' ? '127.0.0.1' : host, port });
}

/** Whether only this machine can reach the address. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(?:\.\d{1,3}){3}$/.test(host);
}

/** Files of a certificate with its chain, and of its key, in PEM. */
export type TlsFiles = Readonly<Record<'cert' | 'key', string>>;

/** The files as they are now; a sentence where they do not fit. */
export function readTlsFiles({ cert, key }: TlsFiles): Result<TlsFiles, string> {
  try {
    const read = (file: string): string => readOperatorFile(file, 262_144).toString('utf8');
    const pem = { cert: read(cert), key: read(key) };
    createSecureContext({ ...pem, minVersion: 'TLSv1.2' });
    return ok(pem);
  } catch (error) {
    return fail(`${cert} and ${key} are no certificate with its key (${getErrorCode(error)})`);
  }
}

const serverOptions = {
  requestTimeout: 15_000,
  headersTimeout: 10_000,
  keepAliveTimeout: 5_000,
  connectionsCheckingInterval: 2_000,
  maxHeaderSize: 16_384,
};

type App = Readonly<Record<'fetch', Parameters<typeof getRequestListener>[0]>>;

/** Serves an app; an address that cannot be taken is a sentence. Slow and idle clients are cut off. */
export function listen({ fetch }: App, where: Listen, tls: TlsFiles | null = null) {
  return new Promise<Result<Listening, string>>((resolve) => {
    const handle = getRequestListener(fetch, { hostname: where.host, overrideGlobalObjects: false });
    const answer: RequestListener = (incoming, outgoing) => void handle(incoming, outgoing);
    const server = tls === null ? createServer(serverOptions, answer) : createSecureServer(tls, answer);
    server.on('connection', makeRoom(200));
    const close = (): Promise<void> =>
      new Promise((done) => {
        server.close(() => done());
        server.closeAllConnections();
      });
    server.once('error', (error: NodeJS.ErrnoException) => {
      const why =
        error.code === 'EADDRINUSE' ? ': another process uses that port; choose another, or end that process' : '';
      resolve(fail(`cannot listen on ${where.host}:${where.port} (${error.code ?? 'error'})${why}`));
    });
    server.listen(where.port, where.host, () => {
      const { port } = server.address() as AddressInfo;
      const host = where.host.includes(':') ? `[${where.host}]` : where.host;
      resolve(ok({ url: `http${tls === null ? '' : 's'}://${host}:${port}`, close }));
    });
  });
}

/** Each connection gets the certificate as the files hold it then; files that do not fit together leave the one before. */
function createSecureServer(files: TlsFiles, answer: RequestListener): Server {
  const server: TlsServer = createTlsServer({ ...serverOptions, minVersion: 'TLSv1.2' }, answer);
  let seen = '';
  const renew = (): void => {
    const version = [files.cert, files.key].map((file) => statSync(file, { throwIfNoEntry: false })?.mtimeMs).join(' ');
    if (version === seen) return;
    const pem = readTlsFiles(files);
    if (!pem.ok) return;
    seen = version;
    server.setSecureContext(pem.value);
  };
  renew();
  server.prependListener('connection', renew);
  return server;
}

/** Of more connections than `most` the oldest is closed: many clients that say nothing must not keep a probe from being heard. */
function makeRoom(most: number): (socket: Socket) => void {
  const open = new Set<Socket>();
  return (socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    const [oldest] = open;
    if (open.size > most) oldest?.destroy();
  };
}
