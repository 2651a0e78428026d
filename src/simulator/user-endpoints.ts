import { ServerCrash } from './crash.ts';
import { type JsonTerm, readObject, type TermMap } from './http/json.ts';
import { answerInvalid, type HttpAnswer, json, notFound } from './http/response.ts';
import type { RuleStore } from './rules/store.ts';
import type { Role, StoredUser, UserStore } from './users.ts';
import { isUuidShaped, isUuidText } from './uuid.ts';

export interface UserEndpointsOptions {
  readonly users: UserStore;
  readonly rules: RuleStore;
  readonly newId: () => string;
}

/** Users are not managed by this project; enough of them is here to list, find, add and remove one (recordings/users). */
export class UserEndpoints {
  readonly #options: UserEndpointsOptions;

  constructor(options: UserEndpointsOptions) {
    this.#options = options;
  }

  list(): HttpAnswer {
    return json(200, { data: this.#options.users.all() });
  }

  show(idOrEmail: string): HttpAnswer {
    const user = this.#find(idOrEmail);
    return user === undefined ? notFound : json(200, { data: user });
  }

  create(sent: JsonTerm): HttpAnswer {
    const fields = readObject(sent);
    const errors = this.#check(fields);
    if (Object.keys(errors).length > 0) return answerInvalid(errors);
    const role: Role = fields.get('role') === 'admin' ? 'admin' : 'unprivileged';
    const email = String(fields.get('email')).trim();
    const user = this.#options.users.add({ name: email, email, id: this.#options.newId(), role });
    return { kind: 'json', status: 201, body: JSON.stringify({ data: user }), location: `/v0/users/${user.id}` };
  }

  update(idOrEmail: string, sent: JsonTerm, callerId: string): HttpAnswer {
    const user = this.#find(idOrEmail);
    if (user === undefined) return notFound;
    const role = readObject(sent).get('role');
    if (role === undefined || role === user.role) return json(200, { data: user });
    if (role !== 'admin' && role !== 'unprivileged') return answerInvalid({ role: ['is invalid'] });
    if (user.id === callerId) return answerInvalid({ role: ['You cannot change your own role'] });
    const changed: StoredUser = { ...user, role };
    this.#options.users.put(changed);
    return json(200, { data: changed });
  }

  delete(idOrEmail: string, callerId: string): HttpAnswer {
    const user = this.#find(idOrEmail);
    if (user === undefined) return notFound;
    if (user.id === callerId) throw new ServerCrash('an administrator deletes itself');
    this.#options.users.delete(user.id);
    for (const row of [...this.#options.rules.rows()]) if (row.userId === user.id) this.#options.rules.delete(row);
    return { kind: 'empty', status: 204, typed: true };
  }

  #check(fields: TermMap): Record<string, string[]> {
    const email = fields.get('email') ?? '';
    const password = fields.get('password') ?? '';
    const errors: Record<string, string[]> = {};
    if (email === '') errors['email'] = ["can't be blank"];
    else if (typeof email !== 'string') errors['email'] = ['is invalid'];
    else if (!email.includes('@')) errors['email'] = ['is invalid email address'];
    if (typeof password === 'string' && password !== '' && password.length < 12) {
      errors['password'] = ['should be at least 12 character(s)'];
    }
    const taken = typeof email === 'string' && this.#options.users.byEmail(email.trim()) !== undefined;
    if (Object.keys(errors).length === 0 && taken) errors['email'] = ['has already been taken'];
    return errors;
  }

  #find(idOrEmail: string): StoredUser | undefined {
    if (!isUuidShaped(idOrEmail)) return this.#options.users.byEmail(idOrEmail);
    if (!isUuidText(idOrEmail)) throw new ServerCrash('not a UUID');
    return this.#options.users.get(idOrEmail.toLowerCase());
  }
}
