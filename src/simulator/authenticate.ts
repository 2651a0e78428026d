import type { Answer } from './http/response.ts';
import { json } from './http/response.ts';
import type { TokenStore } from './tokens.ts';
import type { StoredUser, UserStore } from './users.ts';

/**
 * Who sends this request, from its Authorization header, or the 401 that says what is wrong with it. Being no
 * administrator is found out later, when the caller's rights are looked at.
 */
export function authenticate(
  header: string | undefined,
  tokens: TokenStore,
  users: UserStore,
  nowMilliseconds: number,
): StoredUser | Answer {
  const token = /^bearer:?\s+(\S.*)$/i.exec(header ?? '')?.[1]?.trim();
  if (token === undefined) return refusal('unauthenticated');
  const check = tokens.check(token, nowMilliseconds);
  if ('error' in check) return refusal(check.error);
  return users.get(check.userId) ?? refusal('no_resource_found');
}

const refusal = (auth: string): Answer => json(401, { errors: { auth } });
