import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { parseJson, readObject, ServerCrash } from './http/json.ts';

export type TokenCheck = { readonly userId: string } | { readonly error: 'invalid_token' | 'no_resource_found' };

/** The accepted API tokens: registered ones, and HS512 JWTs whose `api` claim names a token row (observed: recordings/auth). */
export class TokenStore {
  readonly #secret = randomBytes(64);
  readonly #registered = new Map<string, string>();
  /** By id: without a row (deleted, or never stored) and past its date a token is worth nothing. */
  readonly #rows = new Map<string, { readonly userId: string; readonly expiresAt: number }>();

  register(token: string, userId: string): void {
    this.#registered.set(token, userId);
  }

  addRow(id: string, userId: string, expiresAt: number = Number.POSITIVE_INFINITY): void {
    this.#rows.set(id, { userId, expiresAt });
  }

  /** Signs claims as they are (times in seconds since 1970); `addRow` makes the token worth something. */
  sign(claims: Readonly<Record<string, unknown>>): string {
    const head = encode({ alg: 'HS512', typ: 'JWT' });
    const signed = `${head}.${encode(claims)}`;
    return `${signed}.${this.#signature(signed).toString('base64url')}`;
  }

  /** Whom a bearer token stands for. Raises ServerCrash where the real server does: unreadable parts, no `api` claim. */
  check(token: string, nowMilliseconds: number): TokenCheck {
    const owner = this.#registered.get(token);
    if (owner !== undefined) return { userId: owner };
    const [head, payload, signature, ...more] = token.split('.');
    if (head === undefined || payload === undefined || signature === undefined || more.length > 0) {
      return { error: 'invalid_token' };
    }
    const header = readObject(parseJson(decodeBase64(head).toString('utf8')));
    const claims = readObject(parseJson(decodeBase64(payload).toString('utf8')));
    const [exp, id] = [claims.get('exp'), claims.get('api')];
    const sent = decodeBase64(signature);
    const right = this.#signature(`${head}.${payload}`);
    if (header.get('alg') !== 'HS512' || sent.length !== right.length || !timingSafeEqual(sent, right)) {
      return { error: 'invalid_token' };
    }
    if (typeof exp === 'number' && exp * 1000 <= nowMilliseconds) return { error: 'invalid_token' };
    if (typeof id !== 'string') throw new ServerCrash('no api claim');
    const row = this.#rows.get(id);
    if (row === undefined || row.expiresAt <= nowMilliseconds) return { error: 'no_resource_found' };
    return { userId: row.userId };
  }

  #signature(text: string): Buffer {
    return createHmac('sha512', this.#secret).update(text).digest();
  }
}

const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');

function decodeBase64(part: string): Buffer {
  if (!/^[A-Za-z0-9_-]*$/.test(part) || part.length % 4 === 1) throw new ServerCrash('not base64');
  return Buffer.from(part, 'base64url');
}

/** A new random token in the form the real server gives out, for a token file that does not exist yet. */
export function drawToken(nowMilliseconds: number): string {
  const seconds = Math.floor(nowMilliseconds / 1000);
  const id = randomBytes(16).toString('hex');
  return new TokenStore().sign({
    api: id,
    aud: 'fz_http',
    iss: 'fz_http',
    sub: id,
    iat: seconds,
    exp: seconds + 30 * 86_400,
  });
}
