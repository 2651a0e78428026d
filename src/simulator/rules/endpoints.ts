import { ServerCrash } from '../crash.ts';
import { type JsonTerm, readObject } from '../http/json.ts';
import { answerInvalid, type HttpAnswer, json, notFound } from '../http/response.ts';
import type { UserStore } from '../users.ts';
import { isUuidShaped, isUuidText } from '../uuid.ts';
import { castRule, echo, getRuleValues, noRule, type RuleValues, type StoredValues, storeValues } from './change.ts';
import type { RuleRow, StoredRule } from './rule.ts';
import type { RuleStore } from './store.ts';

export interface RuleEndpointsOptions {
  readonly store: RuleStore;
  readonly users: UserStore;
  readonly portRules: boolean;
}

const overlapMessage = answerInvalid({ destination: ['destination overlaps with an existing rule'] });
const badPort = answerInvalid({ port_range: ['port is not within valid range'] });
const noUser = answerInvalid({ user: ['does not exist'] });

/** The five operations on rules, for a caller who may use them. */
export class RuleEndpoints {
  readonly #options: RuleEndpointsOptions;

  constructor(options: RuleEndpointsOptions) {
    this.#options = options;
  }

  list(): HttpAnswer {
    return { kind: 'json', status: 200, body: this.#options.store.listBody() };
  }

  show(id: string): HttpAnswer {
    const row = this.#find(id);
    if (row === undefined) return notFound;
    return { kind: 'json', status: 200, body: `{"data":${this.#options.store.textOf(row)}}` };
  }

  create(sent: JsonTerm): HttpAnswer {
    const change = castRule(noRule, readObject(sent), this.#options.portRules);
    if (!change.ok) return answerInvalid(change.errors);
    const stored = storeValues(change.values);
    const row = this.#write(stored, (values) => this.#options.store.insert(values));
    return 'id' in row ? created(change.values, row) : row;
  }

  update(id: string, sent: JsonTerm): HttpAnswer {
    const before = this.#find(id);
    if (before === undefined) return notFound;
    const change = castRule(getRuleValues(before), readObject(sent), this.#options.portRules);
    if (!change.ok) return answerInvalid(change.errors);
    if (change.changed.size === 0) return json(200, { data: echo(change.values, before) });
    const stored = storeValues(change.values);
    const row = this.#write(stored, (values) => this.#options.store.update(before, values));
    return 'id' in row ? json(200, { data: echo(change.values, row) }) : row;
  }

  delete(id: string): HttpAnswer {
    const row = this.#find(id);
    if (row === undefined) return notFound;
    this.#options.store.delete(row);
    return { kind: 'empty', status: 204, typed: false };
  }

  /** One constraint speaks at a time, in the database's order: check, exclusion, foreign key. */
  #write(
    stored: StoredValues,
    store: (values: StoredValues & { readonly ports: RuleRow['ports'] }) => RuleRow | undefined,
  ): RuleRow | HttpAnswer {
    const { ports, userId } = stored;
    if (ports === undefined) return badPort;
    if (userId !== null && this.#options.users.get(userId) === undefined) return noUser;
    return store({ ...stored, ports }) ?? overlapMessage;
  }

  /** Raises ServerCrash for an id of the right shape that is no UUID; any other text is simply unknown. */
  #find(id: string): RuleRow | undefined {
    if (!isUuidShaped(id)) return undefined;
    if (!isUuidText(id)) throw new ServerCrash('not a UUID');
    return this.#options.store.get(id.toLowerCase());
  }
}

function created(values: RuleValues, row: RuleRow): HttpAnswer {
  const data: StoredRule = echo(values, row);
  return { kind: 'json', status: 201, body: JSON.stringify({ data }), location: `/v0/rules/${row.id}` };
}
