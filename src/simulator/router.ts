import type { ChangeRules } from './configuration/change.ts';
import { updateConfiguration } from './configuration/store.ts';
import { ServerCrash } from './crash.ts';
import { negotiate } from './http/accept.ts';
import type { JsonTerm } from './http/json.ts';
import { type ParsedRequest, parseRequest, type RawRequest } from './http/request.ts';
import { crashAnswer, type HttpAnswer, json, notFound, unauthorized } from './http/response.ts';
import { changeRule, insertRule, type RuleParts, removeRule, showRule } from './rules/endpoints.ts';
import type { Tables } from './tables.ts';
import type { TokenStore } from './tokens.ts';
import { changeUser, insertUser, removeUser, showUser } from './user-endpoints.ts';
import type { StoredUser, UserStore } from './users.ts';

export interface RouterParts extends Tables, RuleParts {
  /** What a change of the configuration has to keep to. */
  readonly changeRules: ChangeRules;
}

/** What a call brings beside its path; `sent` is what stands in the route's wrapper. */
interface Call {
  readonly id: string;
  readonly callerId: string;
  readonly sent: JsonTerm;
}

/** What a method and path lead to. The wrapper must be there before the caller's rights are looked at. */
interface Route {
  readonly wrapper?: 'rule' | 'configuration' | 'user';
  run(parts: RouterParts, call: Call): HttpAnswer | Promise<HttpAnswer>;
}

const routes: Readonly<Record<string, Route>> = {
  'GET rules': { run: ({ rules }) => ({ kind: 'json', status: 200, body: rules.listBody() }) },
  'POST rules': { wrapper: 'rule', run: (parts, { sent }) => insertRule(parts, sent) },
  'GET rules/id': { run: (parts, { id }) => showRule(parts, id) },
  'PATCH rules/id': { wrapper: 'rule', run: (parts, { id, sent }) => changeRule(parts, id, sent) },
  'DELETE rules/id': { run: (parts, { id }) => removeRule(parts, id) },
  'GET configuration': { run: ({ configuration }) => json(200, { data: configuration.row }) },
  'PATCH configuration': {
    wrapper: 'configuration',
    run: ({ configuration, changeRules }, { sent }) => updateConfiguration(configuration, sent, changeRules),
  },
  'GET users': { run: ({ users }) => json(200, { data: users.all() }) },
  'POST users': { wrapper: 'user', run: (parts, { sent }) => insertUser(parts, sent) },
  'GET users/id': { run: (parts, { id }) => showUser(parts, id) },
  'PATCH users/id': { wrapper: 'user', run: (parts, { id, sent, callerId }) => changeUser(parts, id, sent, callerId) },
  'DELETE users/id': { run: (parts, { id, callerId }) => removeUser(parts, id, callerId) },
  'GET devices': { run: () => json(200, { data: [] }) },
};

/** Answers one request, in the real server's order of checks; whatever raises becomes the empty 500. */
export async function answerRequest(parts: RouterParts, raw: RawRequest): Promise<HttpAnswer> {
  try {
    const request = parseRequest(raw);
    const route = routeOf(request);
    if (route === undefined) {
      const isPage = request.segments.length === 0 && request.method === 'GET';
      return formatOf(request, ['html', 'json']) === 'json' && !isPage ? notFound : crashAnswer;
    }
    if (formatOf(request, ['json']) === undefined) return crashAnswer;
    const now = parts.clock.milliseconds();
    const caller = authenticate(request.headers['authorization'], parts.tokens, parts.users, now);
    if ('kind' in caller) return caller;
    const sent = route.wrapper === undefined ? null : request.params.get(route.wrapper);
    if (sent === undefined) throw new ServerCrash(`no wrapper ${route.wrapper}`);
    if (caller.role !== 'admin') return unauthorized;
    return await route.run(parts, { id: request.segments[2] ?? '', callerId: caller.id, sent });
  } catch (error) {
    if (error instanceof ServerCrash) return crashAnswer;
    throw error;
  }
}

/** `_format` beats the Accept header. */
function formatOf(request: ParsedRequest, offers: readonly ('json' | 'html')[]): 'json' | 'html' | undefined {
  const asked = request.params.get('_format');
  if (typeof asked === 'string') return offers.find((offer) => offer === asked);
  return negotiate(request.headers['accept'], offers);
}

function routeOf({ method, segments }: ParsedRequest): Route | undefined {
  const [version, resource, , ...rest] = segments;
  if (version !== 'v0' || rest.length > 0) return undefined;
  const name = `${method === 'PUT' ? 'PATCH' : method} ${resource}${segments.length === 2 ? '' : '/id'}`;
  return Object.hasOwn(routes, name) ? routes[name] : undefined;
}

/** Who sends this request, or the 401 that says what is wrong with its Authorization header. */
function authenticate(
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
