import { decodeLiveConfiguration } from '../live/live-configuration.ts';
import { decodeLiveRules, decodeLiveUsers, type LiveUser } from '../live/live-rules.ts';
import type { LiveConfiguration } from '../model/configuration.ts';
import { fail, ok, type Result } from '../model/result.ts';
import type { LiveRule } from '../model/rule.ts';
import type { LiveState, Scope } from '../model/state.ts';
import type { ApiResult, Clock, LiveApi, Logger } from '../ports.ts';
import { describeAnswer } from './answer-text.ts';
import { computeBackoffMs, isAway, type Judged, send } from './send.ts';

export interface ReadContext {
  readonly api: LiveApi;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Attempts for each request, at least 1. */
  readonly attempts: number;
  readonly signal: AbortSignal;
  /** How long a server that refuses connections is waited for, ms. Default: three attempts. */
  readonly outagePatienceMs?: number;
  /** A server that asks for a longer wait before the next read ends it instead, ms. Default 60,000. */
  readonly longestWaitMs?: number;
  /** When the whole run must be over, by the clock's `now`: no read goes on or begins again after it. */
  readonly until?: number;
  /** False: no manifest manages the Configuration, so that one which cannot be understood does not end the pass. */
  readonly configurationManaged?: boolean;
}

/** Why there is no live state. `code`: `unauthorized`, `forbidden`, `unreadable` (answered, but no such state), or that of `NoAnswer`. */
export interface ReadFailure {
  readonly code: string;
  readonly status: number | null;
  /** One sentence, with what to do. */
  readonly message: string;
  /** How long the server asked to be left alone. */
  readonly retryAfterMs?: number;
}

/** What an answer shows of the server. */
interface Heard {
  /** It was seen refusing connections before it answered. */
  readonly afterOutage: boolean;
  /** How far its clock is ahead of ours, ms; absent where it does not say its time. */
  readonly serverAheadMs?: number;
}

export interface LiveReading extends Heard {
  readonly live: LiveState;
}

/** From this many known rules on, a list that lost more than half of them is read twice. */
const suspicionFloor = 10;
const secondReadAfterMs = 2000;

/**
 * Reads the rules and the Configuration, as far as the scope asks for them; nothing is believed from half an answer.
 * `known` is the number of live rules in the last pass (null: no record): when the list is suddenly empty or holds fewer
 * than half of at least 10, a second read 2 s later must agree before it counts.
 */
export async function readLive(context: ReadContext, scope: Scope, known: number | null) {
  const first = await readOnce(context, scope);
  if (!first.ok || !scope.rules || !hasShrunk(first.value.live.rules.length, known)) return first;
  const { clock, logger } = context;
  const listed = first.value.live.rules;
  logger.warn('the live list lost most of its rules; reading it again', { known, listed: listed.length });
  await clock.sleep(secondReadAfterMs, context.signal);
  const second = await readOnce(context, scope);
  if (!second.ok) return second;
  const again = second.value.live.rules;
  const ids = new Set(listed.map(({ id }) => id));
  if (ids.size === again.length && again.every(({ id }) => ids.has(id))) return second;
  const [then, now] = [listed.length, again.length];
  const changed = `${known} rules to ${then}, then two seconds later to ${now}${now === then ? ' others' : ''}`;
  const message = `GET /v0/rules: the list went from ${changed}; nothing is written until two reads agree`;
  return fail({ code: 'list-unstable', status: null, message });
}

/** Reads the users (GET /v0/users). */
export async function readUsers(context: ReadContext): Promise<Result<readonly LiveUser[], ReadFailure>> {
  const answer = await ask(context, 'GET /v0/users', (api, signal) => api.listUsers(signal));
  return answer.ok ? checkDecoded('GET /v0/users', decodeLiveUsers(answer.value.body)) : answer;
}

/** Reads the rules (GET /v0/rules) once, without the second look of `readLive`. */
export async function readRules(context: ReadContext) {
  const last = lastReads.get(context.api);
  const answer = await ask(context, 'GET /v0/rules', (api, signal) => api.listRules(signal, last?.version));
  if (!answer.ok) return answer;
  const { body, version, ...heard } = answer.value;
  if (last?.version !== undefined && last.version === version) return ok({ rules: last.rules, ...heard });
  const rules = checkDecoded('GET /v0/rules', decodeLiveRules(body, last?.rules));
  if (!rules.ok) return rules;
  lastReads.set(context.api, { version, rules: rules.value });
  return ok({ rules: rules.value, ...heard });
}

/** What each API listed last: most of it comes again. */
const lastReads = new WeakMap<LiveApi, { readonly version: object | undefined; readonly rules: readonly LiveRule[] }>();

/** Reads the Configuration (GET /v0/configuration). */
export async function readConfiguration(context: ReadContext): Promise<Result<LiveConfiguration, ReadFailure>> {
  const answer = await ask(context, 'GET /v0/configuration', (api, signal) => api.getConfiguration(signal));
  return answer.ok ? checkDecoded('GET /v0/configuration', decodeLiveConfiguration(answer.value.body)) : answer;
}

function hasShrunk(listed: number, known: number | null): boolean {
  return known !== null && known > 0 && (listed === 0 || (known >= suspicionFloor && listed < known / 2));
}

async function readOnce(context: ReadContext, scope: Scope): Promise<Result<LiveReading, ReadFailure>> {
  const [rules, configuration] = await Promise.all([
    scope.rules ? readRules(context) : ok({ rules: [], afterOutage: false }),
    scope.configuration ? readConfiguration(context) : ok(null),
  ]);
  if (!rules.ok) return rules;
  const isUnmanaged = context.configurationManaged === false;
  if (!configuration.ok && !(isUnmanaged && configuration.error.code === 'unreadable')) return configuration;
  const { rules: listed, ...heard } = rules.value;
  return ok({ live: { rules: listed, configuration: configuration.ok ? configuration.value : null }, ...heard });
}

function checkDecoded<T>(request: string, result: Result<T, string>): Result<T, ReadFailure> {
  return result.ok ? result : fail({ code: 'unreadable', status: 200, message: `${request}: ${result.error}` });
}

type Call = (api: LiveApi, signal: AbortSignal) => Promise<ApiResult>;
type Asked = Heard & { readonly body: unknown; readonly version: object | undefined };

const hopeless: ReadonlySet<Judged['kind']> = new Set(['success', 'unauthorized', 'broken', 'refused']);

/** One GET, repeated as long as waiting may help; a server that is not there is not waited for long, unless patience is asked for. */
function ask(context: ReadContext, request: string, call: Call) {
  const { clock, logger, signal, longestWaitMs = 60_000 } = context;
  const giveUpAt = clock.now() + (context.outagePatienceMs ?? 0);
  let afterOutage = false;
  return send<Result<Asked, ReadFailure>>({
    call: () => callInTime(context, request, call),
    end: ({ kind, answer }) => {
      // Any other success may be a part of the answer (206) or a proxy's (203).
      if (kind === 'success' && answer.status === 200) {
        const { body, version, serverTime } = answer;
        const ahead = serverTime === undefined ? {} : { serverAheadMs: serverTime - clock.wallTime() };
        return ok({ body, version, afterOutage, ...ahead });
      }
      afterOutage ||= isAway(answer);
      const isHopeless = hopeless.has(kind) || isPage(answer) || askedWaitMs(answer) > longestWaitMs || signal.aborted;
      return isHopeless ? fail(failureOf(answer, request)) : null;
    },
    wait: async ({ kind, answer }, attempt) => {
      const attempts = kind === 'unsent' ? Math.min(3, context.attempts) : context.attempts;
      if (attempt + 1 >= attempts && (!afterOutage || clock.now() >= giveUpAt)) return false;
      const waitMs = Math.max(askedWaitMs(answer), computeBackoffMs(attempt, clock, 2000));
      if (clock.now() + waitMs >= (context.until ?? Number.POSITIVE_INFINITY)) return false;
      logger.debug('reading again', { request, attempt: attempt + 1, waitMs: Math.round(waitMs) });
      await clock.sleep(waitMs, signal);
      return true;
    },
    giveUp: (answer) => fail(failureOf(answer, request)),
  });
}

/** Ends a request in flight when the time for all of reading is over. */
async function callInTime(context: ReadContext, request: string, call: Call): Promise<ApiResult> {
  const { api, clock, signal, until = Number.POSITIVE_INFINITY } = context;
  if (until === Number.POSITIVE_INFINITY) return call(api, signal);
  const [answered, late] = [new AbortController(), new AbortController()];
  void clock.sleep(until - clock.now(), answered.signal).then(() => late.abort());
  const answer = await call(api, AbortSignal.any([signal, late.signal]));
  answered.abort();
  if (answer.kind === 'answer' || !late.signal.aborted) return answer;
  const message = `${request}: no answer before --total-timeout was over`;
  return { ...answer, sent: 'maybe', code: 'timeout', message };
}

function askedWaitMs(answer: ApiResult): number {
  return answer.kind === 'answer' ? (answer.retryAfterMs ?? 0) : 0;
}

/** A complete answer of the wrong kind, a redirect or too much: asking again brings the same. */
function isPage(answer: ApiResult): boolean {
  return answer.kind === 'no-answer' && ['not-json', 'redirect', 'too-large', 'aborted'].includes(answer.code);
}

function failureOf(answer: ApiResult, request: string): ReadFailure {
  if (answer.kind === 'no-answer') return { code: answer.code, status: answer.status, message: answer.message };
  const { status } = answer;
  if (status === 404) {
    const message = `${request}: 404, there is no such API here; check the base URL and its path prefix`;
    return { code: 'not-found', status, message };
  }
  const known: Readonly<Record<number, string>> = { 401: 'unauthorized', 403: 'forbidden' };
  const code = known[status] ?? (status === 429 || status >= 500 ? 'server-error' : 'unreadable');
  const asked = answer.retryAfterMs === null ? '' : `; it asks to wait ${Math.ceil(answer.retryAfterMs / 1000)} s`;
  const retryAfter = answer.retryAfterMs === null ? {} : { retryAfterMs: answer.retryAfterMs };
  return { code, status, message: `${describeAnswer(answer, request)}${asked}`, ...retryAfter };
}
