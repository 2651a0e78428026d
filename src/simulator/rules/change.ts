import { blank, type Cast, castString, invalidMessage } from '../cast.ts';
import { ServerCrash } from '../crash.ts';
import { isMap, type JsonTerm, parseJson, type TermMap } from '../http/json.ts';
import type { FieldErrors } from '../http/response.ts';
import { readUuid } from '../uuid.ts';
import { castInet, storeInet } from './inet.ts';
import { castPorts, formatPorts, type StoredPortRange, storePorts } from './ports.ts';
import { makeRow, type RuleRow, type StoredAction, type StoredPortType, type StoredRule, showRow } from './rule.ts';

/** A rule's fields as cast, before the database sees them. */
export interface RuleValues {
  readonly action: StoredAction | null;
  readonly destination: string | null;
  readonly port_type: StoredPortType | null;
  readonly port_range: string | null;
  readonly user_id: string | null;
}

type Field = keyof RuleValues;

export const noRule: RuleValues = {
  action: 'drop',
  destination: null,
  port_type: null,
  port_range: null,
  user_id: null,
};

export function getRuleValues(row: RuleRow): RuleValues {
  return {
    action: row.action,
    destination: row.destination,
    port_type: row.ports?.type ?? null,
    port_range: row.ports === null ? null : formatPorts(row.ports.range),
    user_id: row.userId,
  };
}

export type CastRule =
  | { readonly ok: true; readonly values: RuleValues; readonly changed: ReadonlySet<Field> }
  | { readonly ok: false; readonly errors: FieldErrors };

/** Casts the sent fields over the present values; without port rules, ports are dropped (recordings/port_rules_unsupported). */
export function castRule(present: RuleValues, sent: TermMap, portRules: boolean): CastRule {
  const values: { -readonly [F in Field]: RuleValues[F] } = { ...present };
  const errors: Record<string, string[]> = {};
  const changed = new Set<Field>();
  const take = <F extends Field>(field: F, cast: (term: JsonTerm) => Cast<RuleValues[F]>): void => {
    const term = sent.get(field);
    if (term === undefined) return;
    const result = term === '' ? { value: noRule[field] } : cast(term);
    if ('message' in result) errors[field] = [result.message];
    else if (values[field] !== result.value) {
      values[field] = result.value;
      changed.add(field);
    }
  };
  take('action', castOneOf(['accept', 'drop']));
  take('destination', castDestination);
  if (portRules) {
    take('port_type', castOneOf(['tcp', 'udp']));
    take('port_range', castPortRange);
  }
  take('user_id', castString);
  const required: Field[] = ['action', 'destination'];
  if (values.port_range !== null || values.port_type !== null) required.push('port_range', 'port_type');
  for (const field of required) if (values[field] === null) errors[field] ??= [blank];
  return Object.keys(errors).length > 0 ? { ok: false, errors } : { ok: true, values, changed };
}

/** Casts one of these words, or null. */
function castOneOf<W extends string>(words: readonly W[]): (term: JsonTerm) => Cast<W | null> {
  return (term) => {
    const value = term === null ? null : words.find((word) => word === term);
    return value === undefined ? invalidMessage : { value };
  };
}

function castDestination(term: JsonTerm): Cast<string | null> {
  if (term === null) return { value: null };
  const value = typeof term === 'string' ? castInet(term) : undefined;
  return value === undefined ? invalidMessage : { value };
}

function castPortRange(term: JsonTerm): Cast<string | null> {
  if (term === null) return { value: null };
  const ports = castPorts(term);
  return 'text' in ports ? { value: ports.text } : ports;
}

/** What a valid change makes of the row's own columns; `ports` undefined when the check constraint refuses them. */
export interface StoredValues {
  readonly action: StoredAction;
  readonly destination: string;
  readonly ports: { readonly type: StoredPortType; readonly range: StoredPortRange } | null | undefined;
  readonly userId: string | null;
}

/** Encodes valid values for the database; raises ServerCrash for what does not fit a column. */
export function storeValues(values: RuleValues): StoredValues {
  const { action, destination, port_type, port_range, user_id } = values;
  if (action === null || destination === null) throw new ServerCrash('a required column is null');
  const userId = user_id === null ? null : readUuid(user_id);
  const range = port_range === null ? null : storePorts(port_range);
  const ports = range === null || port_type === null ? null : range && { type: port_type, range };
  return { action, destination: storeInet(destination), ports, userId };
}

/** The answer to a write: the values as cast, not as stored (`/32`, an upper-case user_id and such are echoed). */
export function echo(values: RuleValues, row: RuleRow): StoredRule {
  const { port_range, port_type, user_id, destination } = values;
  return { ...showRow(row), destination: destination ?? row.destination, port_range, port_type, user_id };
}

/** A rule to begin with, in the API's field names; `action` defaults to drop, as over the API. */
export interface RuleSeed {
  readonly id?: string;
  readonly action?: 'accept' | 'drop';
  readonly destination: string;
  readonly port_type?: 'tcp' | 'udp' | null;
  readonly port_range?: string | null;
  readonly user_id?: string | null;
}

/** The row that this seed is; throws an Error that shows the seed when the server would not take it. */
export function makeSeedRow(seed: RuleSeed, id: string, now: string): RuleRow {
  const sent = parseJson(JSON.stringify(seed));
  const change = isMap(sent) ? castRule(noRule, sent, true) : undefined;
  const stored = change?.ok === true ? storeValues(change.values) : undefined;
  const ports = stored?.ports;
  if (stored === undefined || ports === undefined) throw new Error(`not a rule: ${JSON.stringify(seed)}`);
  return makeRow({ ...stored, ports, id: seed.id ?? id, insertedAt: now, updatedAt: now });
}
