import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { negotiate } from './accept.ts';
import type { RawRequest } from './request.ts';
import { type HttpAnswer, notFound } from './response.ts';

/** Where a fault may cut into the writing of an answer. */
export interface Exchange {
  readonly request: RawRequest;
  readonly message: IncomingMessage;
  readonly response: ServerResponse;
}

/** Observed limits: recordings/limits, recordings/body_size_limit, recordings/http_transport. */
const longestHeader = 5_297;
const longestQuery = 8_733;
const mostHeaders = 100;
const requestsPerConnection = 1_000;
const idleMilliseconds = 60_000;

/** Opens the HTTP server; resolves once it listens. */
export async function listenHttp(host: string, port: number, take: (exchange: Exchange) => void): Promise<Server> {
  const server = createServer(
    {
      maxHeaderSize: 256 * 1024,
      requireHostHeader: false,
      joinDuplicateHeaders: true,
      keepAliveTimeout: idleMilliseconds,
      noDelay: true,
    },
    (message, response) => receive(message, response, take),
  );
  server.on('checkContinue', (message: IncomingMessage, response: ServerResponse) => {
    receive(message, response, take);
    // Like the real server, ask for the body only if it is not there already.
    setImmediate(() => {
      if (!message.readableDidRead && !response.writableEnded) response.writeContinue();
    });
  });
  server.maxHeadersCount = 0;
  server.maxRequestsPerSocket = 0;
  server.on('clientError', (error: NodeJS.ErrnoException & { rawPacket?: Buffer }, socket) => {
    if (!socket.writable) return;
    const isRouted = error.code === 'HPE_INVALID_METHOD' || error.code === 'HPE_INVALID_URL';
    const status = error.code === 'HPE_HEADER_OVERFLOW' ? 431 : 400;
    socket.end(isRouted ? unknownRoute(error.rawPacket) : bareAnswers[status]);
  });
  // Node hands this socket over without its own listener, so a client that went would end the process.
  server.on('connect', (_, socket) => socket.on('error', () => {}).end(bareAnswers[501]));
  await once(server.listen(port, host), 'listening'); // rejects when it cannot
  return server;
}

const bare = (line: string): string => `HTTP/1.1 ${line}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`;
const bareAnswers = {
  400: bare('400 Bad Request'),
  431: bare('431 Request Header Fields Too Large'),
  501: bare('501 Not Implemented'),
} as const;

/** Node refuses methods that it does not know and raw UTF-8 in a path; the real server routes them, which ends in its 404. */
function unknownRoute(packet: Buffer | undefined): string {
  const text = packet?.toString('latin1') ?? '';
  const accept = /^accept:[ \t]*(.*?)[ \t]*\r?$/im.exec(text)?.[1];
  if (negotiate(accept, ['html', 'json']) !== 'json') {
    return 'HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n';
  }
  const head = Object.entries(headersOf(undefined, notFound)).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 404 Not Found\r\n${head.join('')}connection: close\r\n\r\n${notFound.body}`;
}

const served = new WeakMap<object, number>();

function receive(message: IncomingMessage, response: ServerResponse, take: (exchange: Exchange) => void): void {
  const chunks: Buffer[] = [];
  message.on('data', (chunk: Buffer) => chunks.push(chunk));
  message.on('end', () => {
    const headers = message.headers as RawRequest['headers'];
    const body = chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks);
    const request = { method: message.method ?? 'GET', target: message.url ?? '/', headers, body };
    const count = (served.get(message.socket) ?? 0) + 1;
    served.set(message.socket, count);
    if (count >= requestsPerConnection) response.shouldKeepAlive = false;
    const refused = refusal(message);
    if (refused !== null) sendAnswer({ request, message, response }, { status: refused, bare: 'closes' });
    else take({ request, message, response });
  });
}

/** The status for a request that never gets past the real server's HTTP layer. */
function refusal({ url = '/', rawHeaders, method, httpVersion, headers }: IncomingMessage): number | null {
  if (url.length > longestQuery + 16) return 414;
  if (rawHeaders.length / 2 > mostHeaders) return 431;
  if (rawHeaders.some((text, index) => index % 2 === 1 && text.length > longestHeader)) return 431;
  if (method === 'TRACE') return 501;
  if (httpVersion !== '1.0' && headers.host === undefined) return 400;
  return /\bh2c\b/i.test(headers.upgrade ?? '') ? 400 : null;
}

let requestCount = 0;

/** Twenty characters, new for each request; a client's own of at least twenty is kept. */
function requestId(sent: string | undefined): string {
  if (sent !== undefined && sent.length >= 20 && sent.length <= 200) return sent;
  requestCount++;
  return `GOn${requestCount.toString(36).padStart(16, '0')}A`.slice(0, 20);
}

function headersOf(request: RawRequest | undefined, answer: HttpAnswer): Record<string, string> {
  if (answer.bare !== undefined) return { 'content-length': '0' };
  const { body, location, typed } = answer;
  const headers: Record<string, string> = { 'cache-control': 'max-age=0, private, must-revalidate' };
  if (body !== undefined) headers['content-length'] = String(Buffer.byteLength(body));
  if (body !== undefined || typed) headers['content-type'] = 'application/json; charset=utf-8';
  headers['date'] = new Date().toUTCString();
  if (location !== undefined) headers['location'] = location;
  headers['server'] = 'Cowboy';
  headers['x-request-id'] = requestId(request?.headers['x-request-id']);
  return headers;
}

/** Writes an answer with the headers of the real server and no others; `torn`: only half of its body. */
export function sendAnswer(
  { request, message, response }: Exchange,
  answer: HttpAnswer,
  { torn = false, aheadMs = 0 }: { readonly torn?: boolean; readonly aheadMs?: number } = {},
): void {
  response.sendDate = false;
  for (const [name, value] of Object.entries(headersOf(request, answer))) response.setHeader(name, value);
  if (aheadMs !== 0) response.setHeader('date', new Date(Date.now() + aheadMs).toUTCString());
  if (answer.bare === 'closes') response.shouldKeepAlive = false;
  if (!response.shouldKeepAlive) response.setHeader('connection', 'close');
  else if (message.httpVersion === '1.0') response.setHeader('connection', 'keep-alive');
  else response.removeHeader('connection');
  const { status, body } = answer;
  if (body === undefined) response.removeHeader('transfer-encoding');
  response.statusCode = status;
  if (!torn || body === undefined) {
    response.end(body);
    return;
  }
  const bytes = Buffer.from(body);
  response.write(bytes.subarray(0, bytes.length >> 1), () => response.destroy());
}
