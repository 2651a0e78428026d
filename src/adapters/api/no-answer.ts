import type { NoAnswer } from '../../ports.ts';
import type { CutAnswer } from './exchange.ts';

interface FailedRequest extends CutAnswer {
  /** The request, for messages: `GET /v0/rules to HOST`. */
  readonly where: string;
  readonly timeoutMs: number;
  /** The caller's signal aborted. */
  readonly aborted: boolean;
}

/** Before a connection stands nothing can have reached the server. */
const notSent: Readonly<Record<string, { readonly code: string; readonly because: string }>> = {
  ECONNREFUSED: {
    code: 'refused',
    because: 'the connection was refused; is the server running, and the base URL right?',
  },
  EHOSTUNREACH: { code: 'unreachable', because: 'the host is unreachable' },
  ENETUNREACH: { code: 'unreachable', because: 'the network is unreachable' },
  EADDRNOTAVAIL: { code: 'unreachable', because: 'no local address is available for the connection' },
  ENOTFOUND: { code: 'dns', because: 'the host name is not known; check the base URL' },
  EAI_AGAIN: { code: 'dns', because: 'the host name could not be looked up just now' },
  EAI_FAIL: { code: 'dns', because: 'the host name could not be looked up' },
  ENODATA: { code: 'dns', because: 'the host name has no address' },
  ETIMEOUT: { code: 'dns', because: 'looking the host name up took too long' },
  UND_ERR_CONNECT_TIMEOUT: { code: 'timeout', because: 'no connection within the time limit' },
  UND_ERR_DESTROYED: { code: 'aborted', because: 'the client was closed' },
  UND_ERR_CLOSED: { code: 'aborted', because: 'the client was closed' },
};

const tlsReasons: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: "the server's certificate has expired",
  CERT_NOT_YET_VALID: "the server's certificate is not valid yet (is the clock right?)",
  DEPTH_ZERO_SELF_SIGNED_CERT: "the server's certificate is self-signed; give its authority with --ca-file",
  SELF_SIGNED_CERT_IN_CHAIN: "the server's certificate comes from an unknown authority; give it with --ca-file",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: "the server's certificate comes from an unknown authority; give it with --ca-file",
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: "the server's certificate comes from an unknown authority; give it with --ca-file",
  ERR_TLS_CERT_ALTNAME_INVALID: "the server's certificate is for another host name",
};

/** Why no secure connection came about, as part of a sentence, from the code of the error. */
export function explainTlsError(code: string): string {
  return tlsReasons[code] ?? `no secure connection (${code}); is the base URL's scheme right?`;
}

/** Turns whatever undici or a socket threw into one clear sentence. The error's own text is never used: it may quote. */
export function explainNoAnswer(request: FailedRequest): NoAnswer {
  const { code, because, sent } = classify(codesOf(request.error), request);
  return { kind: 'no-answer', sent, code, message: `${request.where}: ${because}`, status: request.status };
}

interface Classified {
  readonly code: string;
  readonly because: string;
  readonly sent: 'no' | 'maybe';
}

function classify(codes: readonly string[], request: FailedRequest): Classified {
  if (request.aborted) return { code: 'aborted', because: 'the request was stopped', sent: 'maybe' };
  if (request.timedOut) {
    return { code: 'timeout', because: `no complete answer within ${request.timeoutMs / 1000} s`, sent: 'maybe' };
  }
  for (const code of codes) {
    const early = notSent[code];
    if (early !== undefined) return { ...early, sent: 'no' };
    const tls = tlsReasons[code];
    if (tls !== undefined) return { code: 'tls', because: tls, sent: 'no' };
    if (/^(CERT_|ERR_TLS|ERR_SSL|EPROTO|UNABLE_TO|HOSTNAME_MISMATCH)/.test(code)) {
      return { code: 'tls', because: explainTlsError(code), sent: 'no' };
    }
    if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE') {
      return { code: 'too-large', because: 'the answer is larger than the limit', sent: 'maybe' };
    }
    if (code === 'UND_ERR_HEADERS_TIMEOUT' || code === 'UND_ERR_BODY_TIMEOUT' || code === 'ETIMEDOUT') {
      return { code: 'timeout', because: 'the server stopped answering', sent: 'maybe' };
    }
  }
  if (request.status !== null) return { code: 'torn-body', because: 'the answer ended in the middle', sent: 'maybe' };
  return { code: 'reset', because: `the connection was lost before an answer${nameOf(codes)}`, sent: 'maybe' };
}

function nameOf(codes: readonly string[]): string {
  const known = codes.find((code) => /^[A-Z][A-Z0-9_]{2,40}$/.test(code));
  return known === undefined ? '' : ` (${known})`;
}

/** The codes of an error, of what caused it, and of the parts of an AggregateError (one for each address tried). */
function codesOf(error: unknown, depth = 0): readonly string[] {
  if (typeof error !== 'object' || error === null || depth > 4) return [];
  const codes: string[] = [];
  if ('code' in error && typeof error.code === 'string') codes.push(error.code);
  if ('errors' in error && Array.isArray(error.errors)) {
    for (const part of error.errors) for (const one of codesOf(part, depth + 1)) codes.push(one);
  }
  if ('cause' in error) for (const one of codesOf(error.cause, depth + 1)) codes.push(one);
  return codes;
}
