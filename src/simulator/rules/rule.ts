import { blank, type Cast, castString, invalidMessage } from '../cast.ts';
import { isMap, type JsonTerm, parseJson, ServerCrash, type TermMap } from '../http/json.ts';
import { readUuid } from '../uuid.ts';
import { castInet, type NetworkBits, storeInet, toNetwork } from './inet.ts';
import { castPorts, formatPorts, type StoredPortRange, storePorts } from './ports.ts';

export type StoredAction = 'accept' | 'drop';
type StoredPortType = 'tcp' | 'udp';

/** A rule as `GET /v0/rules` shows it. */
export interface StoredRule {
  readonly action: StoredAction;
  readonly destination: string;
  readonly id: string;
  readonly inserted_at: string;
  readonly port_range: string | null;
  readonly port_type: StoredPortType | null;
  readonly updated_at: string;
  readonly user_id: string | null;
}

/** A row of the rules table, and what it puts into the packet filter: a network (host bits cleared) in one of the sets. */
export interface RuleRow {
  readonly id: string;
  readonly action: StoredAction;
  readonly network: NetworkBits;
  readonly ports: { readonly type: StoredPortType; readonly range: StoredPortRange } | null;
  readonly userId: string | null;
  readonly shown: StoredRule;
  /** `shown` as JSON. */
  readonly text: string;
}

/** The row that is shown so; keys in the server's (alphabetical) order. Throws where ports or the network are none. */
export function makeRow(stored: StoredRule): RuleRow {
  const { action, destination, id, inserted_at, port_range, port_type, updated_at, user_id } = stored;
  const shown = { action, destination, id, inserted_at, port_range, port_type, updated_at, user_id };
  const range = port_range === null ? null : storePorts(port_range);
  if (range === undefined) throw new Error(`not a range of ports: ${port_range}`);
  const ports = range === null || port_type === null ? null : { type: port_type, range };
  return { id, action, network: toNetwork(destination), ports, userId: user_id, shown, text: JSON.stringify(shown) };
}

/** A rule's fields as cast, before the database sees them. */
type RuleValues = { readonly [F in Field]: StoredRule[F] | null };

type Field = 'action' | 'destination' | 'port_type' | 'port_range' | 'user_id';
type Sent = Exclude<JsonTerm, null>;

export const noRule: RuleValues = {
  action: 'drop',
  destination: null,
  port_type: null,
  port_range: null,
  user_id: null,
};

/** Casts the sent fields over the present values; without port rules, ports are dropped (recordings/port_rules_unsupported). */
export function castRule(present: RuleValues, sent: TermMap, portRules: boolean) {
  const values: { -readonly [F in Field]: RuleValues[F] } = { ...present };
  const errors: Record<string, string[]> = {};
  const changed = new Set<Field>();
  const take = <F extends Field>(field: F, cast: (term: Sent) => Cast<RuleValues[F]>): void => {
    const term = sent.get(field);
    if (term === undefined) return;
    const result = term === '' ? { value: noRule[field] } : term === null ? { value: null } : cast(term);
    if ('message' in result) errors[field] = [result.message];
    else if (values[field] !== result.value) {
      values[field] = result.value;
      changed.add(field);
    }
  };
  take('action', castOneOf(['accept', 'drop']));
  take('destination', (term) => castOr(typeof term === 'string' ? castInet(term) : undefined));
  if (portRules) {
    take('port_type', castOneOf(['tcp', 'udp']));
    take('port_range', castPorts);
  }
  take('user_id', castString);
  const required: Field[] = ['action', 'destination'];
  if (values.port_range !== null || values.port_type !== null) required.push('port_range', 'port_type');
  for (const field of required) if (values[field] === null) errors[field] ??= [blank];
  return Object.keys(errors).length > 0 ? ({ ok: false, errors } as const) : ({ ok: true, values, changed } as const);
}

function castOneOf<const W extends string>(words: readonly W[]): (term: Sent) => Cast<W> {
  return (term) => castOr(words.find((word) => word === term));
}

function castOr<T>(value: T | undefined): Cast<T> {
  return value === undefined ? invalidMessage : { value };
}

/** A row's own columns. */
export type StoredValues = Pick<StoredRule, Field>;

/** Encodes valid values for the database; undefined when its check refuses the ports. Raises ServerCrash for what does not fit a column. */
export function storeValues(values: RuleValues): StoredValues | undefined {
  const { action, destination, port_type, port_range, user_id } = values;
  if (action === null || destination === null) throw new ServerCrash('a required column is null');
  const userId = user_id === null ? null : readUuid(user_id);
  const range = port_range === null ? null : storePorts(port_range);
  const stored = { action, destination: storeInet(destination), port_type, user_id: userId };
  return range === undefined ? undefined : { ...stored, port_range: range && formatPorts(range) };
}

/** The answer to a write: the values as cast, not as stored (`/32`, an upper-case user_id and such are echoed). */
export function echo({ port_range, port_type, user_id, destination }: RuleValues, { shown }: RuleRow): StoredRule {
  return { ...shown, destination: destination ?? shown.destination, port_range, port_type, user_id };
}

/** A rule to begin with, in the API's field names; `action` defaults to drop, as over the API. */
export type RuleSeed = Partial<StoredValues & Pick<StoredRule, 'id'>> & Pick<StoredRule, 'destination'>;

/** The row that this seed is; throws an Error that shows the seed when the server would not take it. */
export function makeSeedRow(seed: RuleSeed, id: string, now: string): RuleRow {
  const sent = parseJson(JSON.stringify(seed));
  const change = isMap(sent) ? castRule(noRule, sent, true) : undefined;
  const stored = change?.ok === true ? storeValues(change.values) : undefined;
  if (stored === undefined) throw new Error(`not a rule: ${JSON.stringify(seed)}`);
  return makeRow({ ...stored, id: seed.id ?? id, inserted_at: now, updated_at: now });
}
