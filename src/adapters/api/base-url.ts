import { isIP } from 'node:net';
import { fail, ok, type Result } from '../../model/result.ts';

/** Where requests go: `origin` without a path, and the path prefix (empty or `/like/this`, no slash at its end). */
export interface BaseUrl {
  readonly origin: string;
  readonly prefix: string;
  /** Host and port, for messages: never a credential. */
  readonly host: string;
}

/** Checks the base URL. Plain http only to loopback, unless `allowHttp`: it shows the token. The error says what to change. */
export function parseBaseUrl(text: string, allowHttp: boolean): Result<BaseUrl, string> {
  if (!URL.canParse(text)) return fail('the base URL is not a URL; write it like https://vpn.example.com');
  const url = new URL(text);
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    return fail(`the base URL must start with https:// (it starts with ${url.protocol})`);
  if (url.username !== '' || url.password !== '')
    return fail('the base URL must not hold a user name or password; --token-file or RECONCILE_TOKEN hold the token');
  if (url.search !== '' || url.hash !== '') return fail('the base URL must not have a query or a fragment');
  if (url.protocol === 'http:' && !allowHttp && !isLoopback(url.hostname))
    return fail(
      `the base URL uses http to ${url.host}: the token would travel in clear text; use https, or --allow-http`,
    );
  const prefix = url.pathname.replace(/\/+$/, '');
  if (/(^|\/)v0(\/|$)/.test(prefix)) return fail('the base URL must end before /v0; the API path is added to it');
  return ok({ origin: url.origin, prefix, host: url.host });
}

function isLoopback(hostname: string): boolean {
  const bare = hostname.replace(/^\[|\]$/g, '');
  if (isIP(bare) === 4) return bare.startsWith('127.');
  return bare === '::1' || bare === 'localhost' || bare.endsWith('.localhost');
}
