import { ServerCrash } from '../crash.ts';
import { isMap, type Term, type TermMap } from '../http/json.ts';
import { type Answer, invalid, json, NOT_FOUND } from '../http/response.ts';
import type { UserStore } from '../users.ts';
import { isUuid, isUuidShaped } from '../uuid.ts';
import { castRule, echo, NO_RULE, type RuleValues, type StoredValues, storeValues, valuesOf } from './change.ts';
import type { RuleRow, StoredRule } from './rule.ts';
import type { RuleStore } from './store.ts';

export interface RuleEndpointsOptions {
  readonly store: RuleStore;
  readonly users: UserStore;
  readonly portRules: boolean;
}

const OVERLAP = invalid({ destination: ['destination overlaps with an existing rule'] });
const BAD_PORT = invalid({ port_range: ['port is not within valid range'] });
const NO_USER = invalid({ user: ['does not exist'] });

/** The five operations on rules, for a caller who may use them. */
export class RuleEndpoints {
  private readonly options: RuleEndpointsOptions;

  constructor(options: RuleEndpointsOptions) {
    this.options = options;
  }

  list(): Answer {
    return { kind: 'json', status: 200, body: this.options.store.listBody() };
  }

  show(id: string): Answer {
    const row = this.find(id);
    if (row === undefined) return NOT_FOUND;
    return { kind: 'json', status: 200, body: `{"data":${this.options.store.textOf(row)}}` };
  }

  create(sent: Term): Answer {
    const change = castRule(NO_RULE, attributes(sent), this.options.portRules);
    if (!change.ok) return invalid(change.errors);
    const stored = storeValues(change.values);
    const row = this.write(stored, (values) => this.options.store.insert(values));
    return 'id' in row ? created(change.values, row) : row;
  }

  update(id: string, sent: Term): Answer {
    const before = this.find(id);
    if (before === undefined) return NOT_FOUND;
    const change = castRule(valuesOf(before), attributes(sent), this.options.portRules);
    if (!change.ok) return invalid(change.errors);
    if (change.changed.size === 0) return json(200, { data: echo(change.values, before) });
    const stored = storeValues(change.values);
    const row = this.write(stored, (values) => this.options.store.update(before, values));
    return 'id' in row ? json(200, { data: echo(change.values, row) }) : row;
  }

  delete(id: string): Answer {
    const row = this.find(id);
    if (row === undefined) return NOT_FOUND;
    this.options.store.delete(row);
    return { kind: 'empty', status: 204, typed: false };
  }

  /** One constraint speaks at a time, in the database's order: check, exclusion, foreign key. */
  private write(
    stored: StoredValues,
    store: (values: StoredValues & { readonly ports: RuleRow['ports'] }) => RuleRow | undefined,
  ): RuleRow | Answer {
    const { ports, userId } = stored;
    if (ports === undefined) return BAD_PORT;
    if (userId !== null && this.options.users.get(userId) === undefined) return NO_USER;
    return store({ ...stored, ports }) ?? OVERLAP;
  }

  /** Raises ServerCrash for an id of the right shape that is no UUID; any other text is simply unknown. */
  private find(id: string): RuleRow | undefined {
    if (!isUuidShaped(id)) return undefined;
    if (!isUuid(id)) throw new ServerCrash('not a UUID');
    return this.options.store.get(id.toLowerCase());
  }
}

function attributes(sent: Term): TermMap {
  if (!isMap(sent)) throw new ServerCrash('the wrapper is no object');
  return sent;
}

function created(values: RuleValues, row: RuleRow): Answer {
  const data: StoredRule = echo(values, row);
  return { kind: 'json', status: 201, body: JSON.stringify({ data }), location: `/v0/rules/${row.id}` };
}
