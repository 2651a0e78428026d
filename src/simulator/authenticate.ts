import { ServerCrash } from './crash.ts';
import type { HttpAnswer } from './http/response.ts';
import { json } from './http/response.ts';
import type { TokenStore } from './tokens.ts';
import type { StoredUser, UserStore } from './users.ts';

/** Who sends this request, or the 401 that says what is wrong with its Authorization header. */
export function authenticate(
  header: string | undefined,
  tokens: TokenStore,
  users: UserStore,
  nowMilliseconds: number,
): StoredUser | HttpAnswer {
  const token = /^bearer:? +(\S.*)$/i.exec(header ?? '')?.[1]?.trim();
  if (token === undefined) return refusal('unauthenticated');
  // Two headers arrive joined: two signed tokens have the five parts of an encrypted one, which the server cannot read.
  const [first, second] = token.split(/, *bearer +/i);
  if (first === second || token.split('.').length === 5) throw new ServerCrash('two Authorization headers');
  const check = tokens.check(token, nowMilliseconds);
  if ('error' in check) return refusal(check.error);
  return users.get(check.userId) ?? refusal('no_resource_found');
}

const refusal = (auth: string): HttpAnswer => json(401, { errors: { auth } });
