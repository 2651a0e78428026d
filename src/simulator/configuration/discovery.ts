import http, { type IncomingHttpHeaders, type IncomingMessage, type RequestOptions } from 'node:http';
import https from 'node:https';
import { buffer } from 'node:stream/consumers';
import { isMap, type JsonTerm, parseJson, ServerCrash } from '../http/json.ts';

/** Checks a discovery document's address: the reason why it is invalid, in the server's words, or undefined. */
export type Discovery = (uri: string) => Promise<string | undefined>;

/** Takes every absolute http(s) address for one that answers; raises ServerCrash for any other, as the real one does. */
export const acceptDiscovery: Discovery = (uri) => {
  checkAddress(uri);
  return Promise.resolve(undefined);
};

export interface FetchDiscoveryOptions {
  readonly milliseconds: () => number;
  /** How long a document may take, in milliseconds; 15,000 on the real server. */
  readonly timeout: number;
  readonly lookup?: RequestOptions['lookup'];
}

const longestCacheMs = 3_600_000;

/** Fetches a document and its keys; kept for an hour, or as `max-age` says (observed: recordings/configuration_oidc). */
export function fetchDiscovery(options: FetchDiscoveryOptions): Discovery {
  const cache = new Map<string, number>();
  return async (uri) => {
    checkAddress(uri);
    if ((cache.get(uri) ?? 0) > options.milliseconds()) return undefined;
    const document = await fetchJson(uri, options);
    if ('reason' in document) return document.reason;
    const keysUri = checkDocument(document.json);
    if (keysUri === undefined) return ':invalid_document';
    if (keysUri === null) return ':invalid_discovery_document_uri';
    if (typeof keysUri !== 'string') throw new ServerCrash('jwks_uri is no text');
    checkAddress(keysUri);
    const keys = await fetchJson(keysUri, options);
    if ('reason' in keys) return keys.reason;
    if (!isMap(keys.json)) return ':invalid_jwks_certificates';
    cache.set(uri, options.milliseconds() + Math.min(longestCacheMs, document.lifetime, keys.lifetime));
    return undefined;
  };
}

function checkAddress(uri: string): void {
  if (!/^https?:\/\/[^\s/]+\S*$/.test(uri)) throw new ServerCrash('no http address');
}

/** The address of the keys; undefined when a required field is missing. Other fields the server takes for granted. */
function checkDocument(json: JsonTerm): JsonTerm | undefined {
  if (!isMap(json)) throw new ServerCrash('a document that is no object');
  const required = ['jwks_uri', 'authorization_endpoint', 'token_endpoint'];
  if (!required.every((key) => json.has(key))) return undefined;
  const types = json.get('response_types_supported');
  if (!Array.isArray(types) || !types.every((type) => typeof type === 'string')) {
    throw new ServerCrash('no response types');
  }
  if (!json.has('userinfo_endpoint')) throw new ServerCrash('no userinfo endpoint');
  return json.get('jwks_uri');
}

type Fetched = { readonly json: JsonTerm; readonly lifetime: number } | { readonly reason: string };

async function fetchJson(uri: string, options: FetchDiscoveryOptions): Promise<Fetched> {
  const answer = await get(uri, options).catch(transportReason);
  if (typeof answer === 'string') return { reason: `%Mint.TransportError{reason: ${answer}}` };
  const { statusCode: status = 0, headers, body } = answer;
  if (status < 200 || status > 299) return { reason: `{${status}, ${inspect(body)}}` };
  try {
    return { json: parseJson(body), lifetime: lifetimeOf(headers) };
  } catch (error) {
    if (!(error instanceof ServerCrash)) throw error;
    return { reason: `%Jason.DecodeError{position: 0, token: nil, data: ${inspect(body)}}` };
  }
}

function lifetimeOf({ 'cache-control': cacheControl, age }: IncomingHttpHeaders): number {
  const maxAge = Number(/(?<=max-age=)[0-9]+/.exec(cacheControl ?? '')?.[0] ?? 0);
  return maxAge > 0 ? (maxAge - Number(age ?? 0)) * 1000 : longestCacheMs;
}

type Answer = Pick<IncomingMessage, 'statusCode' | 'headers'> & { readonly body: string };

function get(uri: string, { timeout, lookup }: FetchDiscoveryOptions): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const { request } = uri.startsWith('https:') ? https : http;
    const call = request(uri, { agent: false, ...(lookup && { lookup }) }, (response) => {
      const { statusCode, headers } = response;
      buffer(response).then((bytes) => resolve({ statusCode, headers, body: bytes.toString('utf8') }), reject);
    });
    call.setTimeout(timeout, () => call.destroy(Object.assign(new Error('timeout'), { code: 'ETIMEDOUT' })));
    call.on('error', reject);
    call.end();
  });
}

const reasons: Readonly<Record<string, string>> = {
  ENOTFOUND: ':nxdomain',
  EAI_AGAIN: ':nxdomain',
  ECONNREFUSED: ':econnrefused',
  ETIMEDOUT: ':timeout',
  ECONNRESET: ':closed',
  EHOSTUNREACH: ':ehostunreach',
  ENETUNREACH: ':enetunreach',
};

function transportReason(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return reasons[code] ?? ':closed';
}

/** A text as the server's language prints it. */
function inspect(body: string): string {
  const shown = [...body].slice(0, 4_096).join('');
  const printed = JSON.stringify(shown).replace(/#(?=\{)/g, '\\#');
  return shown.length < body.length ? `${printed} <> ...` : printed;
}
