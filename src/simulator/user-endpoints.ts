import { ServerCrash } from './crash.ts';
import { type JsonTerm, readObject, type TermMap } from './http/json.ts';
import { answerInvalid, type HttpAnswer, json, notFound } from './http/response.ts';
import type { Tables } from './tables.ts';
import type { Role, StoredUser, UserStore } from './users.ts';
import { isUuidShaped, readUuid } from './uuid.ts';

// Users are not managed by this project; enough of them is here to list, find, add and remove one (recordings/users).

export function showUser({ users }: Tables, idOrEmail: string): HttpAnswer {
  const user = findUser(users, idOrEmail);
  return user === undefined ? notFound : json(200, { data: user });
}

export function insertUser({ users, newId }: Tables, sent: JsonTerm): HttpAnswer {
  const fields = readObject(sent);
  const errors = checkUser(users, fields);
  if (Object.keys(errors).length > 0) return answerInvalid(errors);
  const role: Role = fields.get('role') === 'admin' ? 'admin' : 'unprivileged';
  const email = String(fields.get('email')).trim();
  const user = users.add({ name: email, email, id: newId(), role });
  return { kind: 'json', status: 201, body: JSON.stringify({ data: user }), location: `/v0/users/${user.id}` };
}

export function changeUser({ users }: Tables, idOrEmail: string, sent: JsonTerm, callerId: string): HttpAnswer {
  const user = findUser(users, idOrEmail);
  if (user === undefined) return notFound;
  const role = readObject(sent).get('role');
  if (role === undefined || role === user.role) return json(200, { data: user });
  if (role !== 'admin' && role !== 'unprivileged') return answerInvalid({ role: ['is invalid'] });
  if (user.id === callerId) return answerInvalid({ role: ['You cannot change your own role'] });
  const changed: StoredUser = { ...user, role };
  users.put(changed);
  return json(200, { data: changed });
}

export function removeUser({ users, rules }: Tables, idOrEmail: string, callerId: string): HttpAnswer {
  const user = findUser(users, idOrEmail);
  if (user === undefined) return notFound;
  if (user.id === callerId) throw new ServerCrash('an administrator deletes itself');
  users.delete(user.id);
  for (const row of [...rules.rows()]) if (row.userId === user.id) rules.delete(row);
  return { kind: 'empty', status: 204, typed: true };
}

function checkUser(users: UserStore, fields: TermMap): Record<string, string[]> {
  const email = fields.get('email') ?? '';
  const password = fields.get('password') ?? '';
  const errors: Record<string, string[]> = {};
  if (email === '') errors['email'] = ["can't be blank"];
  else if (typeof email !== 'string') errors['email'] = ['is invalid'];
  else if (!email.includes('@')) errors['email'] = ['is invalid email address'];
  if (typeof password === 'string' && password !== '' && password.length < 12) {
    errors['password'] = ['should be at least 12 character(s)'];
  }
  const taken = typeof email === 'string' && users.byEmail(email.trim()) !== undefined;
  if (Object.keys(errors).length === 0 && taken) errors['email'] = ['has already been taken'];
  return errors;
}

function findUser(users: UserStore, idOrEmail: string): StoredUser | undefined {
  return isUuidShaped(idOrEmail) ? users.get(readUuid(idOrEmail)) : users.byEmail(idOrEmail);
}
