import { blank } from './cast.ts';
import type { Role, StoredUser } from './events.ts';
import { negotiate } from './http/accept.ts';
import { type JsonTerm, readObject, ServerCrash, type TermMap } from './http/json.ts';
import { type ParsedRequest, parseRequest, type RawRequest } from './http/request.ts';
import { answerInvalid, crashAnswer, type HttpAnswer, json, notFound, unauthorized } from './http/response.ts';
import { castRule, echo, noRule, type RuleRow, storeValues } from './rules/rule.ts';
import type { Tables } from './tables.ts';
import type { UserStore } from './users.ts';
import { isUuidShaped, readUuid } from './uuid.ts';

/** What a call brings beside its path; `sent` is what stands in the route's wrapper. */
interface Call {
  readonly id: string;
  readonly callerId: string;
  readonly sent: JsonTerm;
}

/** What a method and path lead to. The wrapper must be there before the caller's rights are looked at. */
interface Route {
  readonly wrapper?: 'rule' | 'configuration' | 'user';
  run(tables: Tables, call: Call): HttpAnswer | Promise<HttpAnswer>;
}

const routes: Readonly<Record<string, Route>> = {
  'GET rules': { run: ({ rules }) => ({ status: 200, body: rules.listBody() }) },
  'POST rules': { wrapper: 'rule', run: (tables, { sent }) => writeRule(tables, null, sent) },
  'GET rules/id': { run: actOn(findRule, (_, row) => ({ status: 200, body: `{"data":${row.text}}` })) },
  'PATCH rules/id': { wrapper: 'rule', run: actOn(findRule, (tables, row, { sent }) => writeRule(tables, row, sent)) },
  'DELETE rules/id': { run: actOn(findRule, removeRule) },
  'GET configuration': { run: ({ configuration }) => json(200, { data: configuration.row() }) },
  'PATCH configuration': { wrapper: 'configuration', run: ({ configuration }, { sent }) => configuration.change(sent) },
  'GET users': { run: ({ users }) => json(200, { data: users.all() }) },
  'POST users': { wrapper: 'user', run: (tables, { sent }) => insertUser(tables, sent) },
  'GET users/id': { run: actOn(findUser, (_, user) => json(200, { data: user })) },
  'PATCH users/id': { wrapper: 'user', run: actOn(findUser, changeUser) },
  'DELETE users/id': { run: actOn(findUser, removeUser) },
  'GET devices': { run: () => json(200, { data: [] }) },
};

/** Runs on what the path's id stands for, if anything. */
function actOn<T>(
  find: (tables: Tables, id: string) => T | undefined,
  act: (tables: Tables, found: T, call: Call) => HttpAnswer,
): Route['run'] {
  return (tables, call) => {
    const found = find(tables, call.id);
    return found === undefined ? notFound : act(tables, found, call);
  };
}

/** Answers one request, in the real server's order of checks; whatever raises becomes the empty 500. */
export async function answerRequest(tables: Tables, raw: RawRequest): Promise<HttpAnswer> {
  try {
    const request = parseRequest(raw);
    const route = routeOf(request);
    if (route === undefined) {
      const isPage = request.segments.length === 0 && request.method === 'GET';
      return formatOf(request, ['html', 'json']) === 'json' && !isPage ? notFound : crashAnswer;
    }
    if (formatOf(request, ['json']) === undefined) return crashAnswer;
    const caller = authenticate(request.headers['authorization'], tables);
    if ('status' in caller) return caller;
    const sent = route.wrapper === undefined ? null : request.params.get(route.wrapper);
    if (sent === undefined) throw new ServerCrash(`no wrapper ${route.wrapper}`);
    if (caller.role !== 'admin') return unauthorized;
    return await route.run(tables, { id: request.segments[2] ?? '', callerId: caller.id, sent });
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
function authenticate(header: string | undefined, { tokens, users, clock }: Tables): StoredUser | HttpAnswer {
  const token = /^bearer:? +(\S.*)$/i.exec(header ?? '')?.[1]?.trim();
  if (token === undefined) return refusal('unauthenticated');
  // Two headers arrive joined: two signed tokens have the five parts of an encrypted one, which the server cannot read.
  const [first, second] = token.split(/, *bearer +/i);
  if (first === second || token.split('.').length === 5) throw new ServerCrash('two Authorization headers');
  const check = tokens.check(token, clock.milliseconds());
  if ('error' in check) return refusal(check.error);
  return users.get(check.userId) ?? refusal('no_resource_found');
}

const refusal = (auth: string): HttpAnswer => json(401, { errors: { auth } });

/** Changes a rule, or makes one. One constraint speaks at a time, in the database's order: check, exclusion, foreign key. */
function writeRule({ rules, users, portRules }: Tables, before: RuleRow | null, sent: JsonTerm): HttpAnswer {
  const change = castRule(before?.shown ?? noRule, readObject(sent), portRules);
  if (!change.ok) return answerInvalid(change.errors);
  const answer = (row: RuleRow): HttpAnswer => json(200, { data: echo(change.values, row) });
  if (before !== null && change.changed.size === 0) return answer(before);
  const values = storeValues(change.values);
  if (values === undefined) return answerInvalid({ port_range: ['port is not within valid range'] });
  if (values.user_id !== null && users.get(values.user_id) === undefined)
    return answerInvalid({ user: ['does not exist'] });
  const row = before === null ? rules.insert(values) : rules.update(before, values);
  if (row === undefined) return answerInvalid({ destination: ['destination overlaps with an existing rule'] });
  return before === null ? { ...answer(row), status: 201, location: `/v0/rules/${row.id}` } : answer(row);
}

function removeRule({ rules }: Tables, row: RuleRow): HttpAnswer {
  rules.delete(row);
  return { status: 204 };
}

/** Raises ServerCrash for an id of the right shape that is no UUID; any other text is simply unknown. */
function findRule({ rules }: Tables, id: string): RuleRow | undefined {
  return isUuidShaped(id) ? rules.get(readUuid(id)) : undefined;
}

// Users are not managed by this project; enough of them is here to list, find, add and remove one (recordings/users).

function insertUser({ users, newId }: Tables, sent: JsonTerm): HttpAnswer {
  const fields = readObject(sent);
  const errors = checkUser(users, fields);
  if (Object.keys(errors).length > 0) return answerInvalid(errors);
  const role: Role = fields.get('role') === 'admin' ? 'admin' : 'unprivileged';
  const email = String(fields.get('email')).trim();
  const user = users.add({ name: email, email, id: newId(), role });
  return { status: 201, body: JSON.stringify({ data: user }), location: `/v0/users/${user.id}` };
}

function changeUser({ users }: Tables, user: StoredUser, { sent, callerId }: Call): HttpAnswer {
  const role = readObject(sent).get('role');
  if (role === undefined || role === user.role) return json(200, { data: user });
  if (role !== 'admin' && role !== 'unprivileged') return answerInvalid({ role: ['is invalid'] });
  if (user.id === callerId) return answerInvalid({ role: ['You cannot change your own role'] });
  const changed: StoredUser = { ...user, role };
  users.put(changed);
  return json(200, { data: changed });
}

function removeUser({ users, rules }: Tables, user: StoredUser, { callerId }: Call): HttpAnswer {
  if (user.id === callerId) throw new ServerCrash('an administrator deletes itself');
  users.delete(user.id);
  for (const row of [...rules.rows()]) if (row.userId === user.id) rules.delete(row);
  return { status: 204, typed: true };
}

function checkUser(users: UserStore, fields: TermMap): Record<string, string[]> {
  const email = fields.get('email') ?? '';
  const password = fields.get('password') ?? '';
  const errors: Record<string, string[]> = {};
  if (email === '') errors['email'] = [blank];
  else if (typeof email !== 'string') errors['email'] = ['is invalid'];
  else if (!email.includes('@')) errors['email'] = ['is invalid email address'];
  if (typeof password === 'string' && password !== '' && password.length < 12) {
    errors['password'] = ['should be at least 12 character(s)'];
  }
  const taken = typeof email === 'string' && users.byEmail(email.trim()) !== undefined;
  if (Object.keys(errors).length === 0 && taken) errors['email'] = ['has already been taken'];
  return errors;
}

function findUser({ users }: Tables, idOrEmail: string): StoredUser | undefined {
  return isUuidShaped(idOrEmail) ? users.get(readUuid(idOrEmail)) : users.byEmail(idOrEmail);
}
