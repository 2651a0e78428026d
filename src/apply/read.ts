import { decodeLiveConfiguration } from '../live/live-configuration.ts';
import { decodeLiveRules, decodeLiveUsers, type LiveUser } from '../live/live-rules.ts';
import { fail, ok, type Result } from '../model/result.ts';
import type { LiveState, Scope } from '../model/state.ts';
import type { ApiResult, Clock, LiveApi, Logger } from '../ports.ts';
import { textOf } from './answer-text.ts';
import { backoffMs, kindOf } from './retry.ts';

/** What reading needs. */
export interface ReadContext {
  readonly api: LiveApi;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Attempts for each request, at least 1. */
  readonly attempts: number;
  readonly signal: AbortSignal;
  /** False: no manifest manages the Configuration, so that one which cannot be understood does not end the pass. */
  readonly configurationManaged?: boolean;
}

/** Why there is no live state. `code`: `unauthorized`, `forbidden`, `unreadable` (answered, but no such state), or that of `ApiLost`. */
export interface ReadFailure {
  readonly code: string;
  readonly status: number | null;
  /** One sentence, with what to do. */
  readonly message: string;
  /** How long the server asked to be left alone. */
  readonly retryAfterMs?: number;
}

/** A live state, and whether the server was seen refusing connections before it answered. */
export interface LiveReading {
  readonly live: LiveState;
  readonly afterOutage: boolean;
}

/** From this many known rules on, a list that lost more than half of them is read twice. */
const suspicionFloor = 10;
const secondReadAfterMs = 2000;
/** A server that asks for more than this before the next read ends the pass instead. */
const longestWaitMs = 60_000;

/**
 * Reads the rules and the Configuration, as far as the scope asks for them; nothing is believed from half an answer.
 * `known` is the number of live rules in the last pass (null: no record): when the list is suddenly empty or holds fewer
 * than half of at least 10, a second read 2 s later must agree before it counts.
 */
export async function readLive(
  context: ReadContext,
  scope: Scope,
  known: number | null,
): Promise<Result<LiveReading, ReadFailure>> {
  const first = await readOnce(context, scope);
  if (!first.ok || !scope.rules || !hasShrunk(first.value.live.rules.length, known)) return first;
  const { clock, logger } = context;
  logger.warn('the live list lost most of its rules; reading it again', {
    known: known ?? 0,
    listed: first.value.live.rules.length,
  });
  await clock.sleep(secondReadAfterMs, context.signal);
  const second = await readOnce(context, scope);
  if (!second.ok) return second;
  if (sameIds(first.value.live, second.value.live)) return second;
  return fail({
    code: 'list-unstable',
    status: null,
    message: `GET /v0/rules: the list went from ${known} rules to ${first.value.live.rules.length}, then two seconds later to ${second.value.live.rules.length}; nothing is written until two reads agree`,
  });
}

/** Reads the users (GET /v0/users). */
export async function readUsers(context: ReadContext): Promise<Result<readonly LiveUser[], ReadFailure>> {
  const answer = await ask(context, 'GET /v0/users', (signal) => context.api.listUsers(signal));
  return answer.ok ? decoded('GET /v0/users', decodeLiveUsers(answer.value.body)) : answer;
}

function hasShrunk(listed: number, known: number | null): boolean {
  return known !== null && known > 0 && (listed === 0 || (known >= suspicionFloor && listed < known / 2));
}

function sameIds(a: LiveState, b: LiveState): boolean {
  const ids = new Set(a.rules.map((rule) => rule.id));
  return ids.size === b.rules.length && b.rules.every((rule) => ids.has(rule.id));
}

async function readOnce(context: ReadContext, scope: Scope): Promise<Result<LiveReading, ReadFailure>> {
  const { api } = context;
  const nothing = ok({ body: undefined, afterOutage: false });
  const [rules, configuration] = await Promise.all([
    scope.rules ? ask(context, 'GET /v0/rules', (signal) => api.listRules(signal)) : nothing,
    scope.configuration ? ask(context, 'GET /v0/configuration', (signal) => api.getConfiguration(signal)) : nothing,
  ]);
  if (!rules.ok) return rules;
  if (!configuration.ok) return configuration;
  const liveRules = scope.rules ? decoded('GET /v0/rules', decodeLiveRules(rules.value.body)) : ok([]);
  if (!liveRules.ok) return liveRules;
  const liveConfiguration = scope.configuration
    ? decoded('GET /v0/configuration', decodeLiveConfiguration(configuration.value.body))
    : ok(null);
  if (!liveConfiguration.ok && context.configurationManaged !== false) return liveConfiguration;
  return ok({
    live: { rules: liveRules.value, configuration: liveConfiguration.ok ? liveConfiguration.value : null },
    afterOutage: rules.value.afterOutage || configuration.value.afterOutage,
  });
}

function decoded<T>(request: string, result: Result<T, string>): Result<T, ReadFailure> {
  if (result.ok) return result;
  return fail({ code: 'unreadable', status: 200, message: `${request}: ${result.error}` });
}

interface Asked {
  readonly body: unknown;
  readonly afterOutage: boolean;
}

/** One GET, repeated with backoff as long as waiting may help; a server that is not there is not waited for long. */
async function ask(
  context: ReadContext,
  request: string,
  call: (signal: AbortSignal) => Promise<ApiResult>,
): Promise<Result<Asked, ReadFailure>> {
  const { clock, logger, signal } = context;
  let afterOutage = false;
  for (let attempt = 0; ; attempt++) {
    const answer = await call(signal);
    const kind = kindOf(answer);
    if (kind === 'success' && answer.kind === 'answer') return ok({ body: answer.body, afterOutage });
    if (answer.kind === 'lost' && answer.code === 'refused') afterOutage = true;
    const attempts = kind === 'unsent' ? Math.min(3, context.attempts) : context.attempts;
    const hopeless = kind === 'unauthorized' || kind === 'broken' || kind === 'refused' || isPage(answer);
    const asked = answer.kind === 'answer' ? answer.retryAfterMs : null;
    const tooLong = asked !== null && asked > longestWaitMs;
    if (hopeless || tooLong || attempt + 1 >= attempts || signal.aborted) return fail(failureOf(answer, request));
    const waitMs = Math.max(asked ?? 0, backoffMs(attempt, clock));
    logger.debug('reading again', { request, attempt: attempt + 1, waitMs: Math.round(waitMs) });
    await clock.sleep(waitMs, signal);
  }
}

/** A complete answer of the wrong kind, a redirect or too much: asking again brings the same. */
function isPage(answer: ApiResult): boolean {
  return answer.kind === 'lost' && ['not-json', 'redirect', 'too-large', 'aborted'].includes(answer.code);
}

function failureOf(answer: ApiResult, request: string): ReadFailure {
  if (answer.kind === 'lost') return { code: answer.code, status: answer.status, message: answer.message };
  const { status } = answer;
  if (status === 404) {
    return {
      code: 'not-found',
      status,
      message: `${request}: 404, there is no such API here; check the base URL and its path prefix`,
    };
  }
  const known = new Map([
    [401, 'unauthorized'],
    [403, 'forbidden'],
  ]);
  const code = known.get(status) ?? (status === 429 || status >= 500 ? 'server-error' : 'unreadable');
  const asked = answer.retryAfterMs === null ? '' : `; it asks to wait ${Math.ceil(answer.retryAfterMs / 1000)} s`;
  const retryAfter = answer.retryAfterMs === null ? {} : { retryAfterMs: answer.retryAfterMs };
  return { code, status, message: `${textOf(answer, request)}${asked}`, ...retryAfter };
}
