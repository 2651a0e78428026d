import type { ReadFailure } from '../apply/read.ts';
import { makeError, type Problem } from '../model/problem.ts';
import type { ProblemCode } from '../model/problem-code.ts';
import { forbiddenHint } from '../report/failed-steps.ts';
import { readClaims } from './token.ts';

/** What to do about each way in which the live state cannot be read; one table for every command. */
const hints: Readonly<Record<string, string>> = {
  refused: 'nothing listens there: check --base-url and its port, and that the server runs',
  dns: 'the name cannot be resolved: check --base-url and this machine’s DNS',
  timeout:
    'the server did not answer in time: check the network, or give it longer with --timeout (one request) or --total-timeout (all reading)',
  reset: 'the connection broke: check a proxy or load balancer on the way, then run again',
  unreachable: 'check the network and the routes of this machine, or the proxy that the message names',
  tls: 'renew what has expired on the server; name an authority of your own with --ca-file; verification cannot be turned off',
  'not-json': 'this is not the API: check --base-url (a login page or another site answers there)',
  redirect: 'the API never redirects, and the token goes nowhere else: check --base-url',
  'torn-body': 'the answer ended early, and a plan needs all of it: run again',
  'too-large': 'the answer is far larger than any rule list: check --base-url',
  unreadable: 'nothing is planned from an answer that is not understood: check --base-url and the server’s version',
  'not-found': 'check --base-url: it is the address before /v0',
  'server-error': 'its log says why; where it limits requests, wait, or lower --concurrency; nothing was written',
  forbidden: forbiddenHint,
  'list-unstable': 'run again when nobody else is changing the rules',
  aborted: 'stopped before anything was written',
  'reader-died': 'nothing was written: run again; where memory is short, lower `limits.parseMb` in the settings',
  unauthorized:
    'make a token as an administrator (Settings, API tokens) and put it in the file that --token-file names',
};

/** The problem for a person, with what to do; `now` is ms since 1970, for a token that says it has expired. */
export function explainReadFailure(failure: ReadFailure, token: () => string, now: number): Problem {
  // Two of them say nothing about the connection.
  const own = (['unauthorized', 'reader-died'] as const).find((one) => one === failure.code);
  const code: ProblemCode = own ?? `api-${failure.code}`;
  const { expiresAt = null } = (failure.code === 'unauthorized' ? readClaims(token()) : null) ?? {};
  const day = expiresAt === null || expiresAt > now ? null : new Date(expiresAt).toISOString().slice(0, 10);
  const expired = day === null ? '' : ` (the token itself says that it expired on ${day})`;
  const hint = hints[failure.code] ?? 'nothing was written; run again, or with --verbose';
  return makeError(code, `${failure.message}${expired}`, hint);
}
