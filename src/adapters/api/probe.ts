import { isIP } from 'node:net';
import { connect } from 'node:tls';
import { Agent } from 'undici';
import { decodeJsonObject, getErrorCode } from '../../model/result.ts';
import { readOperatorFile } from '../source/regular-file.ts';
import { exchange, explainTlsError, locate } from './exchange.ts';

/** What a certificate says; times in ms since 1970. */
export interface CertificateFacts {
  readonly validTo: number;
  readonly issuer: string;
}

export interface Probe {
  readonly caFile: string | null;
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}

/** The certificate that the server shows, verified as requests verify it; the error is part of a sentence. */
export function readCertificate(url: URL, { caFile, signal, timeoutMs }: Probe): Promise<CertificateFacts | string> {
  if (signal.aborted) return Promise.resolve('stopped');
  return new Promise((resolve) => {
    const host = url.hostname.replace(/^\[|\]$/g, '');
    const socket = connect({
      host,
      port: url.port === '' ? 443 : Number(url.port),
      ...(isIP(host) === 0 ? { servername: host } : {}),
      ...readAuthority(caFile),
    });
    const end = (result: CertificateFacts | string): void => {
      socket.destroy();
      resolve(result);
    };
    socket.setTimeout(timeoutMs, () => end(`no answer within ${timeoutMs / 1000} s`));
    signal.addEventListener('abort', () => end('stopped'), { once: true });
    socket.once('error', (error: NodeJS.ErrnoException) => end(reasonOf(error.code ?? 'failed')));
    socket.once('secureConnect', () => {
      const certificate = socket.getPeerCertificate();
      const issuer = certificate.issuer.O ?? certificate.issuer.CN ?? 'unknown';
      end({ validTo: Date.parse(certificate.valid_to), issuer: Array.isArray(issuer) ? issuer.join(', ') : issuer });
    });
  });
}

/** An error before the handshake is the network's, not the certificate's. */
function reasonOf(code: string): string {
  return /^E(?!PROTO|RR_)[A-Z]+$/.test(code) ? `no connection (${code})` : explainTlsError(code);
}

/** The server's clock from the Date header of any answer (NaN without one), and the round trip, ms; null without an answer. No token is sent. */
export async function readServerTime(url: URL, { now, ...probe }: Probe & { readonly now: () => number }) {
  const started = now();
  const answer = await get(url, probe);
  return answer.ok ? { serverTime: Date.parse(String(answer.value.headers['date'])), tookMs: now() - started } : null;
}

function readAuthority(caFile: string | null): { readonly ca?: Buffer } {
  return caFile === null ? {} : { ca: readOperatorFile(caFile, 1_000_000) };
}

/** A GET on a connection of its own. */
async function get(url: URL, { caFile, ...bounds }: Probe): ReturnType<typeof exchange> {
  const dispatcher = new Agent({ connect: { rejectUnauthorized: true, ...readAuthority(caFile) } });
  const request = { ...locate(url), method: 'GET', headers: { accept: 'application/json' } } as const;
  const answer = await exchange(dispatcher, { request, ...bounds, maxBodyBytes: largestDocument });
  await dispatcher.destroy();
  return answer;
}

/** Bytes of a discovery document at most; real ones have a few thousand. */
const largestDocument = 1_000_000;

/** Fetches a discovery document as the server does: no redirects, 15 s. The error is part of a sentence; null when it is fine. */
export async function checkDiscovery(uri: string, signal: AbortSignal, timeoutMs = 15_000): Promise<string | null> {
  if (!/^https?:\/\//.test(uri) || !URL.canParse(uri)) return 'its address is no http(s) URL';
  const answer = await get(new URL(uri), { caFile: null, timeoutMs, signal });
  if (!answer.ok) {
    const code = getErrorCode(answer.error.error);
    if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE') return `it is larger than ${largestDocument} bytes`;
    const isLate = answer.error.timedOut || signal.aborted || !/^[A-Z_]+$/.test(code);
    return isLate ? 'it cannot be fetched in time' : `it cannot be fetched (${code})`;
  }
  const { status, text } = answer.value;
  return status === 200 ? describeMissing(text) : `it answers ${status}`;
}

const endpoints = ['jwks_uri', 'authorization_endpoint', 'token_endpoint', 'userinfo_endpoint'];

function describeMissing(text: string): string | null {
  const document = decodeJsonObject(text);
  if (document === null) return 'it is not a JSON object';
  const missing = [...endpoints, 'response_types_supported'].filter((name) => !(name in document));
  return missing.length === 0 ? null : `it lacks ${missing.join(', ')}`;
}
