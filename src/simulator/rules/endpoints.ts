import { type JsonTerm, readObject } from '../http/json.ts';
import { answerInvalid, type HttpAnswer, json, notFound } from '../http/response.ts';
import type { Tables } from '../tables.ts';
import { isUuidShaped, readUuid } from '../uuid.ts';
import { castRule, echo, noRule, type StoredValues, storeValues } from './change.ts';
import type { RuleRow } from './rule.ts';

/** What the operations on rules work with; without port rules, ports are dropped. */
export interface RuleParts extends Pick<Tables, 'rules' | 'users'> {
  readonly portRules: boolean;
}

const overlapMessage = answerInvalid({ destination: ['destination overlaps with an existing rule'] });
const badPort = answerInvalid({ port_range: ['port is not within valid range'] });
const noUser = answerInvalid({ user: ['does not exist'] });

export function showRule({ rules }: RuleParts, id: string): HttpAnswer {
  const row = findRule({ rules }, id);
  if (row === undefined) return notFound;
  return { kind: 'json', status: 200, body: `{"data":${row.text}}` };
}

export function insertRule(parts: RuleParts, sent: JsonTerm): HttpAnswer {
  const change = castRule(noRule, readObject(sent), parts.portRules);
  if (!change.ok) return answerInvalid(change.errors);
  const row = write(parts, storeValues(change.values), (values) => parts.rules.insert(values));
  if (!('id' in row)) return row;
  const body = JSON.stringify({ data: echo(change.values, row) });
  return { kind: 'json', status: 201, body, location: `/v0/rules/${row.id}` };
}

export function changeRule(parts: RuleParts, id: string, sent: JsonTerm): HttpAnswer {
  const before = findRule(parts, id);
  if (before === undefined) return notFound;
  const change = castRule(before.shown, readObject(sent), parts.portRules);
  if (!change.ok) return answerInvalid(change.errors);
  if (change.changed.size === 0) return json(200, { data: echo(change.values, before) });
  const row = write(parts, storeValues(change.values), (values) => parts.rules.update(before, values));
  return 'id' in row ? json(200, { data: echo(change.values, row) }) : row;
}

export function removeRule({ rules }: RuleParts, id: string): HttpAnswer {
  const row = findRule({ rules }, id);
  if (row === undefined) return notFound;
  rules.delete(row);
  return { kind: 'empty', status: 204, typed: false };
}

/** One constraint speaks at a time, in the database's order: check, exclusion, foreign key. */
function write(
  { users }: RuleParts,
  values: StoredValues | undefined,
  store: (values: StoredValues) => RuleRow | undefined,
): RuleRow | HttpAnswer {
  if (values === undefined) return badPort;
  if (values.user_id !== null && users.get(values.user_id) === undefined) return noUser;
  return store(values) ?? overlapMessage;
}

/** Raises ServerCrash for an id of the right shape that is no UUID; any other text is simply unknown. */
function findRule({ rules }: Pick<RuleParts, 'rules'>, id: string): RuleRow | undefined {
  return isUuidShaped(id) ? rules.get(readUuid(id)) : undefined;
}
