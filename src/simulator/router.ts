import { authenticate } from './authenticate.ts';
import type { Clock } from './clock.ts';
import type { ConfigurationEndpoints } from './configuration/endpoints.ts';
import { ServerCrash } from './crash.ts';
import { negotiate } from './http/accept.ts';
import type { Term } from './http/json.ts';
import { type ParsedRequest, parseRequest, type RawRequest } from './http/request.ts';
import { type Answer, crashAnswer, notFound, unauthorized } from './http/response.ts';
import type { RuleEndpoints } from './rules/endpoints.ts';
import type { TokenStore } from './tokens.ts';
import type { UserEndpoints } from './user-endpoints.ts';
import type { UserStore } from './users.ts';

export interface RouterParts {
  readonly clock: Clock;
  readonly tokens: TokenStore;
  readonly users: UserStore;
  readonly rules: RuleEndpoints;
  readonly configuration: ConfigurationEndpoints;
  readonly userEndpoints: UserEndpoints;
}

/** What a request's method and path lead to. The wrapper must be there before the caller's rights are looked at. */
type Route = (callerId: string) => Answer | Promise<Answer>;

/**
 * Answers one request in the real server's order: parsers, routing, acceptable format, authentication, the wrapper,
 * the caller's rights, then the operation. Whatever raises becomes the empty 500.
 */
export function answerRequest(parts: RouterParts, raw: RawRequest): Answer | Promise<Answer> {
  try {
    const request = parseRequest(raw);
    const route = routeOf(parts, request);
    if (route === undefined) return formatOf(request, ['html', 'json']) === 'json' ? notFound : crashAnswer;
    if (formatOf(request, ['json']) === undefined) return crashAnswer;
    const now = parts.clock.milliseconds();
    const caller = authenticate(request.headers['authorization'], parts.tokens, parts.users, now);
    if ('kind' in caller) return caller;
    const operation = route();
    if (caller.role !== 'admin') return unauthorized;
    const answer = operation(caller.id);
    return answer instanceof Promise ? answer.catch(crashed) : answer;
  } catch (error) {
    return crashed(error);
  }
}

function crashed(error: unknown): Answer {
  if (error instanceof ServerCrash) return crashAnswer;
  throw error;
}

/** `_format` beats the Accept header. */
function formatOf(request: ParsedRequest, offers: readonly ('json' | 'html')[]): 'json' | 'html' | undefined {
  const asked = request.params.get('_format');
  if (typeof asked === 'string') return offers.find((offer) => offer === asked);
  return negotiate(request.headers['accept'], offers);
}

/** The route, if there is one; calling it checks the parameters (a missing wrapper raises) and gives the operation. */
function routeOf(parts: RouterParts, request: ParsedRequest): (() => Route) | undefined {
  const [version, resource, id = '', ...rest] = request.segments;
  if (version !== 'v0' || rest.length > 0) return undefined;
  const operation = `${request.method} ${resource}${request.segments.length === 2 ? '' : '/id'}`;
  const wrapped = (name: string, run: (sent: Term, callerId: string) => Answer | Promise<Answer>) => () => {
    const sent = request.params.get(name);
    if (sent === undefined) throw new ServerCrash(`no wrapper ${name}`);
    return (callerId: string) => run(sent, callerId);
  };
  const { rules, configuration, userEndpoints: users } = parts;
  switch (operation) {
    case 'GET rules':
      return () => () => rules.list();
    case 'POST rules':
      return wrapped('rule', (sent) => rules.create(sent));
    case 'GET rules/id':
      return () => () => rules.show(id);
    case 'PATCH rules/id':
    case 'PUT rules/id':
      return wrapped('rule', (sent) => rules.update(id, sent));
    case 'DELETE rules/id':
      return () => () => rules.delete(id);
    case 'GET configuration':
      return () => () => configuration.show();
    case 'PATCH configuration':
    case 'PUT configuration':
      return wrapped('configuration', (sent) => configuration.update(sent));
    case 'GET users':
      return () => () => users.list();
    case 'POST users':
      return wrapped('user', (sent) => users.create(sent));
    case 'GET users/id':
      return () => () => users.show(id);
    case 'PATCH users/id':
    case 'PUT users/id':
      return wrapped('user', (sent, callerId) => users.update(id, sent, callerId));
    case 'DELETE users/id':
      return () => (callerId) => users.delete(id, callerId);
    default:
      return undefined;
  }
}
