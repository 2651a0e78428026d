import { setMaxListeners } from 'node:events';
import type { Dispatcher } from 'undici';
import { fail, isObject, ok, type Result } from '../../model/result.ts';
import type { NoAnswer } from '../../ports.ts';

type Headers = Readonly<Record<string, string | string[] | undefined>>;

interface Exchange {
  readonly request: Dispatcher.DispatchOptions;
  /** Limit from sending to the last byte. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  readonly maxBodyBytes: number;
}

export interface RawAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

interface CutAnswer {
  readonly error: unknown;
  /** Null: the headers had not arrived. */
  readonly status: number | null;
  readonly timedOut: boolean;
}

// undici's `request` makes a stream and an `AbortSignal` for each, which cost as much CPU as all the rest.
/** Sends a request and reads its answer. Never rejects. */
export function exchange(dispatcher: Dispatcher, { request, timeoutMs, signal, maxBodyBytes }: Exchange) {
  return new Promise<Result<RawAnswer, CutAnswer>>((resolve) => {
    if (signal.aborted) return resolve(fail({ error: new Error('stopped'), status: null, timedOut: false }));
    let [status, headers]: [number | null, Headers] = [null, {}];
    let [body, length, counted] = [Buffer.alloc(0), 0, 0];
    let controller: Dispatcher.DispatchController | null = null;
    let stopped: 'in-time' | 'late' | null = null;
    const end = (result: Result<RawAnswer, CutAnswer>): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      resolve(result);
    };
    const cut = (error: unknown): void => {
      // Nobody reads the body of a redirect.
      if (status !== null && status >= 300 && status < 400) end(ok({ status, headers, text: '' }));
      else end(fail({ error, status, timedOut: stopped === 'late' }));
    };
    const stop = (when: 'in-time' | 'late'): void => {
      stopped = when;
      if (controller === null) cut(new Error('stopped'));
      else controller.abort(new Error('stopped'));
    };
    const timer = setTimeout(() => stop('late'), timeoutMs);
    const onAbort = (): void => stop('in-time');
    setMaxListeners(0, signal); // Node warns of more than ten requests that wait for one signal
    signal.addEventListener('abort', onAbort, { once: true });
    dispatcher.dispatch(request, {
      onRequestStart: (started) => {
        controller = started;
        // It waited for its connection.
        if (stopped !== null) started.abort(new Error('stopped'));
      },
      onResponseStart: (started, code, heard) => {
        if (code < 200) return; // an interim answer: the real one follows
        [status, headers] = [code, heard];
        const announced = Number(heard['content-length'] ?? 0);
        if (announced > maxBodyBytes) started.abort(tooLarge());
        else if (announced > 0) body = Buffer.allocUnsafe(announced);
      },
      onResponseData: (started, chunk) => {
        // Copied: a slice of what undici read holds all of that. Each of millions of tiny chunks takes time, and counts for more.
        const needed = length + chunk.length;
        if (needed > body.length) body = Buffer.concat([body], Math.max(2 * length, needed));
        length += chunk.copy(body, length);
        counted += Math.max(chunk.length, 64);
        if (counted > maxBodyBytes) started.abort(tooLarge());
      },
      onResponseEnd: () => {
        const text = body.toString('utf8', 0, length);
        end(ok({ status: status ?? 0, headers, text: text.startsWith('\uFEFF') ? text.slice(1) : text }));
      },
      onResponseError: (_, error) => cut(error),
    });
  });
}

/** As undici names it. */
const tooLarge = (): Error => Object.assign(new Error('too large'), { code: 'UND_ERR_RES_EXCEEDED_MAX_SIZE' });

/** Where undici sends a request. */
export function locate({ origin, pathname, search }: URL): { readonly origin: string; readonly path: string } {
  return { origin, path: pathname + search };
}

/** Before a connection stands nothing can have reached the server. */
const notSent: Readonly<Record<string, readonly [code: string, because: string]>> = {
  ECONNREFUSED: ['refused', 'the connection was refused; is the server running, and the base URL right?'],
  EHOSTUNREACH: ['unreachable', 'the host is unreachable'],
  ENETUNREACH: ['unreachable', 'the network is unreachable'],
  EADDRNOTAVAIL: ['unreachable', 'no local address is available for the connection'],
  ENOTFOUND: ['dns', 'the host name is not known; check the base URL'],
  EAI_AGAIN: ['dns', 'the host name could not be looked up just now'],
  EAI_FAIL: ['dns', 'the host name could not be looked up'],
  ENODATA: ['dns', 'the host name has no address'],
  ETIMEOUT: ['dns', 'looking the host name up took too long'],
  UND_ERR_CONNECT_TIMEOUT: ['timeout', 'no connection within the time limit'],
  UND_ERR_DESTROYED: ['aborted', 'the client was closed'],
  UND_ERR_CLOSED: ['aborted', 'the client was closed'],
};

const strange = "the server's certificate comes from an unknown authority; the file of --ca-file must hold it, whole";
const tlsReasons: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: "the server's certificate has expired",
  CERT_NOT_YET_VALID: "the server's certificate is not valid yet (is the clock right?)",
  DEPTH_ZERO_SELF_SIGNED_CERT: "the server's certificate is self-signed; the file of --ca-file must hold it, whole",
  SELF_SIGNED_CERT_IN_CHAIN: strange,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: strange,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: strange,
  ERR_TLS_CERT_ALTNAME_INVALID: "the server's certificate is for another host name",
};

/** Why no secure connection came about, as part of a sentence, from the code of the error. */
export function explainTlsError(code: string): string {
  return tlsReasons[code] ?? `no secure connection (${code}); is the base URL's scheme right?`;
}

/** Turns whatever undici or a socket threw at `where` into one clear sentence. The error's own text is never used: it may quote. */
export function explainNoAnswer(where: string, cut: CutAnswer, timeoutMs: number, isStopped: boolean): NoAnswer {
  const { timedOut, status, error } = cut;
  const tell = (sent: NoAnswer['sent'], code: string, because: string): NoAnswer => {
    return { kind: 'no-answer', sent, code, message: `${where}: ${because}`, status };
  };
  if (isStopped) return tell('maybe', 'aborted', 'the request was stopped');
  if (timedOut) return tell('maybe', 'timeout', `no complete answer within ${timeoutMs / 1000} s`);
  const atProxy = explainProxy(error);
  if (atProxy !== null) return tell('no', 'unreachable', atProxy);
  const codes = codesOf(error);
  for (const code of codes) {
    const early = notSent[code];
    if (early !== undefined) return tell('no', ...early);
    if (tlsCode.test(code)) return tell('no', 'tls', explainTlsError(code));
    if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE')
      return tell('maybe', 'too-large', 'the answer is larger than the limit');
    if (code === 'ETIMEDOUT') return tell('maybe', 'timeout', 'the server stopped answering');
  }
  if (status !== null) return tell('maybe', 'torn-body', 'the answer ended in the middle');
  const known = codes.find((code) => /^[A-Z][A-Z0-9_]{2,40}$/.test(code));
  const named = known === undefined ? '' : ` (${known})`;
  return tell('maybe', 'reset', `the connection was lost before an answer${named}`);
}

/** What went wrong at a proxy, as part of a sentence; null: nothing. The status of a refused tunnel is in undici's text alone. */
function explainProxy(error: unknown): string | null {
  const { message, isProxys } = isObject(error) ? error : {};
  const [, status] = /^Proxy response \((\d{3})\)/.exec(String(message)) ?? [];
  if (status === '407')
    return 'the proxy wants a user and password; write them into HTTPS_PROXY: http://USER:PASSWORD@…';
  if (status !== undefined) return `the proxy answered ${status} and did not connect; ask whoever runs it`;
  if (isProxys !== true) return null;
  const [because = 'it was lost'] = codesOf(error).flatMap((code) => notSent[code]?.[1] ?? explainTlsError(code));
  return `no connection to the proxy: ${because.replace(/;.*/, '')}; check HTTPS_PROXY`;
}

const tlsCode = /^(CERT_|DEPTH_ZERO_|SELF_SIGNED_|ERR_TLS|ERR_SSL|EPROTO|UNABLE_TO|HOSTNAME_MISMATCH)/;

/** The codes of an error, of the parts of an AggregateError (one for each address tried), and of what caused it. */
function codesOf(error: unknown, depth = 0): readonly string[] {
  if (!isObject(error) || depth > 4) return [];
  const { code, errors, cause } = error;
  const parts: readonly unknown[] = Array.isArray(errors) ? errors : [];
  return [...(typeof code === 'string' ? [code] : []), ...[...parts, cause].flatMap((one) => codesOf(one, depth + 1))];
}
