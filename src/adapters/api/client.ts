import { X509Certificate } from 'node:crypto';
import { type buildConnector, type Dispatcher, EnvHttpProxyAgent, Pool } from 'undici';
import { providersTimeoutMs } from '../../model/configuration.ts';
import { attempt, fail, getErrorCode, ok, type Result } from '../../model/result.ts';
import { reveal, Secret } from '../../model/secret.ts';
import type { ApiResult, LiveApi, NoAnswer } from '../../ports.ts';
import { hideSecrets, quotesToken } from '../hide-secrets.ts';
import { readOperatorFile } from '../source/regular-file.ts';
import { type ParseBody, readAnswer } from './answer.ts';
import { type BaseUrl, parseBaseUrl } from './base-url.ts';
import { exchange, explainNoAnswer } from './exchange.ts';

export interface ApiClientOptions {
  /** `https://host`, with an optional path prefix that stands before `/v0`. */
  readonly baseUrl: string;
  /** Asked for each request, so that a renewed token file counts at once. May throw when there is no token. */
  readonly token: () => string;
  /** A PEM file with the authorities to trust instead of the system's. Read again when the server's certificate is not trusted. */
  readonly caFile?: string;
  /** Allows plain http beyond loopback. */
  readonly allowHttp?: boolean;
  /** Deadline of one request from sending to its last byte, ms. Default 15,000. */
  readonly requestTimeoutMs?: number;
  /** Connections at most. Default 16. */
  readonly connections?: number;
  /** Largest body that is read, bytes. Default 64 MiB (about 200,000 rules). */
  readonly maxBodyBytes?: number;
  /** Proxies, as the operator's environment names them; without it none is used. */
  readonly proxy?: ProxyVariables;
  /** Replaces the connection pool, for tests. */
  readonly dispatcher?: Dispatcher;
}

/** What `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` say; empty: nothing. */
export type ProxyVariables = Readonly<Record<'httpsProxy' | 'httpProxy' | 'noProxy', string>>;

/** The administration API over HTTP. */
export interface ApiClient extends LiveApi {
  /** Call it when every request has ended. */
  close(): Promise<void>;
}

interface Connection extends Pick<ApiClientOptions, 'token'> {
  readonly base: BaseUrl;
  readonly exchange: (order: Omit<Parameters<typeof exchange>[1], 'maxBodyBytes'>) => ReturnType<typeof exchange>;
}

interface Request {
  readonly timeoutMs: number;
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly signal: AbortSignal;
  readonly body?: string;
  /** What an error of the server must not repeat, beside the token. */
  readonly secrets: readonly string[];
  /** Replaces `JSON.parse` for the answer. */
  readonly parse?: ParseBody;
}

/** A client of the API; fails when the settings cannot work. No call throws, follows a redirect or repeats a request that was sent. */
export function createApiClient(options: ApiClientOptions): Result<ApiClient, string> {
  const base = parseBaseUrl(options.baseUrl, options.allowHttp ?? false);
  if (!base.ok) return base;
  const ca = readAuthorities(options.caFile);
  if (!ca.ok) return ca;
  const timeoutMs = options.requestTimeoutMs ?? 15_000;
  const maxBodyBytes = options.maxBodyBytes ?? 64 * 1024 * 1024;
  const bounds = {
    connections: options.connections ?? 16,
    pipelining: 1,
    keepAliveTimeout: 30_000, // the server closes idle connections after 60 s (observed: recordings/limits)
    headersTimeout: 0, // one deadline rules: see startDeadline
    bodyTimeout: 0,
    maxResponseSize: maxBodyBytes,
  };
  const open = (authorities: string | undefined): Dispatcher => {
    // Certificates are checked whatever NODE_TLS_REJECT_UNAUTHORIZED says.
    const tls = { rejectUnauthorized: true, ...(authorities === undefined ? {} : { ca: authorities }) };
    const pool = { ...bounds, connect: { timeout: timeoutMs, ...tls } };
    const proxied = { ...options.proxy, ...pool, requestTls: tls, proxyTls: tls, clientFactory };
    return options.proxy ? new EnvHttpProxyAgent(proxied) : new Pool(base.value.origin, pool);
  };
  const first = options.dispatcher ?? attempt(() => open(ca.value), null);
  if (first === null)
    return fail('HTTPS_PROXY or HTTP_PROXY is not the address of a proxy; write it like http://proxy.example.com:3128');
  let [current, trusted] = [first, ca.value];
  /** Sends nothing where the certificate is not trusted: then it reads the CA file anew, and keeps that if the server answers. */
  const exchangeTrusted: Connection['exchange'] = async (order) => {
    const used = current;
    const send = (dispatcher: Dispatcher) => exchange(dispatcher, { ...order, maxBodyBytes });
    const answer = await send(used);
    if (answer.ok || !/^(CERT|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO)_/.test(getErrorCode(answer.error.error))) return answer;
    if (current !== used) return send(current);
    const read = readAuthorities(options.caFile);
    if (!read.ok || read.value === trusted) return answer;
    const renewed = open(read.value);
    const second = await send(renewed);
    if (!second.ok) void renewed.destroy();
    else [current, trusted] = [renewed, read.value]; // the old connections end when they are idle
    return second;
  };
  const connection = { base: base.value, exchange: exchangeTrusted, token: options.token };
  // Not `close`, which waits for the connections of requests that ended long ago: behind a silent proxy for ever.
  return ok({ ...methodsOf(connection, timeoutMs), close: () => current.destroy() });
}

/** The connections to a proxy, whose errors are marked: else they look like those of the server. */
function clientFactory(origin: URL, { connect }: { readonly connect: buildConnector.connector }): Dispatcher {
  const marked = (...[error, socket]: Parameters<buildConnector.Callback>) =>
    [error && Object.assign(error, { isProxys: true }), socket] as Parameters<buildConnector.Callback>;
  return new Pool(origin, { connect: (target, done) => connect(target, (...end) => done(...marked(...end))) });
}

function readAuthorities(path: string | undefined): Result<string | undefined, string> {
  if (path === undefined) return ok(undefined);
  try {
    const pem = readOperatorFile(path, 1_000_000).toString('utf8');
    const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]*(-----END CERTIFICATE-----)?/g) ?? [];
    const isWhole = blocks.length > 0 && blocks.every((block) => attempt(() => new X509Certificate(block), null));
    return isWhole ? ok(pem) : fail(`the CA file ${path} holds no PEM certificate, or one that is damaged or cut off`);
  } catch (error) {
    return fail(`the CA file ${path} cannot be read (${getErrorCode(error)})`);
  }
}

function methodsOf(connection: Connection, timeoutMs: number): LiveApi {
  const call = (
    signal: AbortSignal,
    method: Request['method'],
    path: string,
    more: Partial<Pick<Request, 'body' | 'parse' | 'timeoutMs'>> = {},
  ): Promise<ApiResult> =>
    send(connection, { signal, method, path, secrets: [...stored, ...sent], timeoutMs, ...more });
  /** Secrets that the Configuration held when it was last read, and those last sent. */
  let stored: ReadonlySet<string> = new Set();
  let sent: ReadonlySet<string> = new Set();
  const parseConfiguration: ParseBody = (text) => {
    const { body, secrets } = parseSecrets(text);
    stored = secrets;
    return { body };
  };
  const parseRules = parseUnlessKnown();
  const rulePath = (id: string): string => `/v0/rules/${encodeURIComponent(id)}`;
  return {
    listRules: (signal, known) => call(signal, 'GET', '/v0/rules', { parse: (text) => parseRules(text, known) }),
    getConfiguration: (signal) => call(signal, 'GET', '/v0/configuration', { parse: parseConfiguration }),
    listUsers: (signal) => call(signal, 'GET', '/v0/users'),
    createRule: (rule, signal) => call(signal, 'POST', '/v0/rules', { body: JSON.stringify({ rule }) }),
    updateRule: (id, rule, signal) => call(signal, 'PATCH', rulePath(id), { body: JSON.stringify({ rule }) }),
    deleteRule: (id, signal) => call(signal, 'DELETE', rulePath(id)),
    updateConfiguration: async (configuration, signal) => {
      const made = toBytes({ configuration });
      const [path, because] = ['/v0/configuration', 'a secret that the request needs has no value here'];
      if (made === null) return neverSent('PATCH', path, 'unknown-secret', because);
      sent = made.secrets;
      const leastMs = 'openid_connect_providers' in configuration ? providersTimeoutMs : 0;
      return call(signal, 'PATCH', path, { body: made.body, timeoutMs: Math.max(timeoutMs, leastMs) });
    },
  };
}

/** Characters of an answer that are kept to be compared with the next: some 30,000 rules. */
const mostKept = 8_000_000;

/** Parses JSON, unless the text is that of the version that the caller knows. The text alone is kept, not what was made of it. */
function parseUnlessKnown(): (text: string, known: object | undefined) => ReturnType<ParseBody> {
  let last: { readonly text: string; readonly version: object } | null = null;
  return (text, known) => {
    if (text.length > mostKept) return parseBody(text);
    if (last?.text === text && last.version === known) return { body: undefined, version: known };
    const { body } = parseBody(text);
    if (last?.text !== text) last = { text, version: {} };
    return { body, version: last.version };
  };
}

const parseBody: ParseBody = (text) => ({ body: JSON.parse(text) });

/** Parses JSON, with the texts of its members that are secret. */
function parseSecrets(text: string) {
  const secrets = new Set<string>();
  const body: unknown = JSON.parse(text, (key, value: unknown) => {
    const isSecret = key === 'client_secret' || key === 'metadata';
    if (isSecret && typeof value === 'string' && value !== '') secrets.add(value);
    return value;
  });
  return { body, secrets };
}

async function send(connection: Connection, request: Request): Promise<ApiResult> {
  const { base } = connection;
  const { method, path, signal, timeoutMs, secrets, parse = parseBody } = request;
  const token = attempt(() => connection.token(), null);
  if (token === null) return neverSent(method, path, 'token', 'the API token cannot be read; check --token-file');
  if (!/^[\x21-\x7e]+$/.test(token))
    return neverSent(method, path, 'token', 'the API token is empty or not plain text');
  if (signal.aborted) return neverSent(method, path, 'aborted', 'the request was stopped before it was sent');
  const headers = { accept: 'application/json', 'content-type': 'application/json', authorization: `Bearer ${token}` };
  const dispatched = { origin: base.origin, path: base.prefix + path, method, headers, body: request.body ?? null };
  const answer = await connection.exchange({ request: dispatched, timeoutMs, signal });
  const where = `${method} ${path} to ${base.host}`;
  if (!answer.ok) return explainNoAnswer(where, answer.error, timeoutMs, signal.aborted);
  const { status, text } = answer.value;
  // Whatever answers, a proxy too, may quote the request with its headers.
  const message = `${where}: the answer quotes the API token, so nothing of it is used`;
  if (status < 300 && quotesToken(text, token))
    return { kind: 'no-answer', sent: 'maybe', code: 'not-json', message, status };
  const read = readAnswer(where, answer.value, base, parse);
  if (read.kind === 'no-answer') return { ...read, message: String(hideSecrets(read.message, [token]) ?? message) };
  return status < 300 ? read : { ...read, body: hideSecrets(read.body, [token, ...secrets]) };
}

function neverSent(method: string, path: string, code: string, because: string): NoAnswer {
  return { kind: 'no-answer', sent: 'no', code, message: `${method} ${path}: ${because}`, status: null };
}

/** A request body as JSON: the one place where a `Secret` becomes bytes. Null when a secret has no value in this process. */
function toBytes(given: Readonly<Record<string, unknown>>) {
  const secrets = new Set<string>();
  let missing = false;
  const body = JSON.stringify(given, function (this: Record<string, unknown>, key: string, value: unknown): unknown {
    const original = this[key]; // `value` has been through Secret.toJSON already
    if (!(original instanceof Secret)) return value;
    const revealed = reveal(original);
    if (revealed === undefined) missing = true;
    else if (revealed !== '') secrets.add(revealed);
    return revealed;
  });
  return missing ? null : { body, secrets };
}
