import { formatAddress, parseNetwork } from '../model/address.ts';
import { formatPortRange, type Ports, parsePortRange } from '../model/port-range.ts';
import { fail, isObject, ok, type Result } from '../model/result.ts';
import type { LiveRule } from '../model/rule.ts';
import { everyPort } from '../model/state.ts';

/** A user as far as manifests may name one. */
export interface LiveUser {
  readonly id: string;
  /** Lower case. */
  readonly email: string;
}

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/**
 * Reads the answer of GET /v0/rules. Strict for every field that a plan relies on; of fields it does not know the names are
 * kept. One rule that cannot be read fails the whole, for a plan from half an answer could delete the other half. Checked by hand rather
 * than by a schema: 100,000 rules are decoded in each pass. A rule that is listed as it was in `before` is the same object.
 */
export function decodeLiveRules(body: unknown, before: readonly LiveRule[] = []): Result<readonly LiveRule[], string> {
  const data = readList(body, 'rules');
  if (!data.ok) return data;
  const rules: LiveRule[] = [];
  const ids = new Set<string>();
  const known = new Map<unknown, LiveRule>(before.map((live) => [live.id, live]));
  for (const [index, item] of data.value.entries()) {
    const same = isObject(item) ? known.get(item['id']) : undefined;
    const rule = isObject(item) && same && isListedAs(same, item) ? ok(same) : decodeOne(item);
    if (!rule.ok) return fail(`live rule ${nameOf(item, index)}: ${rule.error}`);
    if (ids.has(rule.value.id)) return fail(`live rule ${rule.value.id} is listed twice`);
    ids.add(rule.value.id);
    rules.push(rule.value);
  }
  return ok(rules);
}

/** Reads the answer of POST /v0/rules or PATCH /v0/rules/{id}; the server echoes `/32` and upper case there. */
export function decodeLiveRule(body: unknown): Result<LiveRule, string> {
  const rule = decodeOne(unwrapData(body));
  return rule.ok ? rule : fail(`the answer holds no rule: ${rule.error}`);
}

/** Reads the answer of GET /v0/users (observed: recordings/users). An address that two users have would name either. */
export function decodeLiveUsers(body: unknown): Result<readonly LiveUser[], string> {
  const data = readList(body, 'users');
  if (!data.ok) return data;
  const users: LiveUser[] = [];
  const addresses = new Set<string>();
  for (const [index, item] of data.value.entries()) {
    if (!isObject(item)) return fail(`user ${index + 1} is not an object`);
    const { id, email } = item;
    if (typeof id !== 'string' || !uuid.test(id)) return fail(`user ${index + 1} has no id`);
    if (typeof email !== 'string') return fail(`user ${id} has no e-mail address`);
    if (addresses.has(email.toLowerCase())) return fail(`user ${id} has the e-mail address of another one`);
    addresses.add(email.toLowerCase());
    users.push({ id: id.toLowerCase(), email: email.toLowerCase() });
  }
  return ok(users);
}

/** The items of a list that is complete. */
function readList(body: unknown, of: string): Result<readonly unknown[], string> {
  const data = unwrapData(body);
  if (!Array.isArray(data)) return fail(`the list of ${of} is not {"data": [...]}`);
  return tellsOfMore(body, data.length)
    ? fail(`the list is only a part of the ${of}: this server pages its answers`)
    : ok(data);
}

const nextPage = /^(?:next(?:[_-]?(?:page|cursor|link|url|token))?|has[_-]?(?:more|next)(?:[_-]?page)?)$/i;
const total = /^total(?:[_-]?(?:count|entries|items|results))?$/i;

/** Whether something beside `data` says that the list goes on elsewhere: Firezone lists everything (recordings/rules_list). */
function tellsOfMore(body: unknown, listed: number, depth = 0): boolean {
  if (!isObject(body)) return false;
  return Object.entries(body).some(([key, value]) => {
    if (depth === 0 && key === 'data') return false;
    if (nextPage.test(key)) return Boolean(value);
    if (total.test(key)) return typeof value === 'number' && value > listed;
    return depth === 0 && tellsOfMore(value, listed, 1);
  });
}

/** The content of `{"data": …}`; undefined when the body has another shape: beside errors, data may be half of it. */
export function unwrapData(body: unknown): unknown {
  return isObject(body) && (body['errors'] ?? null) === null ? body['data'] : undefined;
}

/** Ids are the server's own text: shown in messages only when they look like ids. */
function nameOf(item: unknown, index: number): string {
  const id = isObject(item) ? item['id'] : undefined;
  return typeof id === 'string' && uuid.test(id) ? id : `number ${index + 1} of the list`;
}

/** Whether every field that is decoded has the text that it had. */
function isListedAs(live: LiveRule, item: Readonly<Record<string, unknown>>): boolean {
  const { action, ports, userId } = live.rule;
  return (
    `${listOthers(item).unknownFields}` === `${live.unknownFields}` &&
    item['id'] === live.id &&
    item['action'] === action &&
    item['destination'] === live.destinationText &&
    item['port_type'] === (ports === null ? null : ports.type) &&
    item['port_range'] === (ports === null ? null : formatPortRange(ports)) &&
    item['user_id'] === userId &&
    item['inserted_at'] === live.insertedAt &&
    item['updated_at'] === live.updatedAt
  );
}

const nullable = ['port_range', 'port_type', 'user_id'] as const;
const fieldsRead = new Set<string>([...nullable, 'action', 'destination', 'id', 'inserted_at', 'updated_at']);

function listOthers(item: Readonly<Record<string, unknown>>): Pick<LiveRule, 'unknownFields'> {
  const unknownFields = Object.keys(item).filter((name) => !fieldsRead.has(name));
  return unknownFields.length === 0 ? {} : { unknownFields };
}

function decodeOne(item: unknown): Result<LiveRule, string> {
  if (!isObject(item)) return fail('it is not an object');
  const { id, action, destination } = item;
  if (typeof id !== 'string' || !uuid.test(id)) return fail('it has no id');
  if (action !== 'accept' && action !== 'drop') return fail('its action is neither accept nor drop');
  if (typeof destination !== 'string') return fail('its destination is not text');
  const parsed = parseNetwork(destination.includes('%') ? (removeZone(destination) ?? destination) : destination);
  if (!parsed.ok) return fail(`its destination cannot be read (${parsed.error})`);
  // A member that is not there might be anything: a user's rule must not pass for everybody's.
  const missing = nullable.find((name) => !(name in item));
  if (missing !== undefined) return fail(`it has no ${missing}`);
  const ports = decodePorts(item['port_type'], item['port_range']);
  if (!ports.ok) return ports;
  const user = item['user_id'];
  const userId = typeof user === 'string' ? user.toLowerCase() : null;
  if (user !== null && (userId === null || !uuid.test(userId))) return fail('its user_id is not a UUID');
  const insertedAt = item['inserted_at'];
  const updatedAt = item['updated_at'];
  if (typeof insertedAt !== 'string' || typeof updatedAt !== 'string')
    return fail('it has no inserted_at or updated_at');
  const rule = { action, destination: parsed.value.network, ports: ports.value, userId } as const;
  return ok({ id, rule, destinationText: parsed.value.written, insertedAt, updatedAt, ...listOthers(item) });
}

function decodePorts(type: unknown, range: unknown): Result<Ports | null, string> {
  const none = type === null;
  if (none && range === null) return ok(null);
  if (type !== 'tcp' && type !== 'udp')
    return fail(none ? 'it has a port_range without a port_type' : 'its port_type is unknown');
  if (typeof range !== 'string') return fail('it has a port_type without a port_range');
  // Which ports a server takes is the profile's business.
  const parsed = parsePortRange(range, everyPort);
  if (!parsed.ok) return fail(`its port_range cannot be read (${parsed.error})`);
  return ok({ type, low: parsed.value.low, high: parsed.value.high });
}

const zoned = /^((?:fe80|ff02):[0-9a-f:.]*)%0?([0-9]{1,5})((?:\/[0-9]+)?)$/i;
const secondGroup = 96n;

/**
 * The same network without a zone. The server's runtime prints the second group of an address below fe80 or ff02 as a zone
 * (`fe80:1::1` as `fe80::1%1`; never recorded, read in its source), and so it alone can be meant: the database stores no zones.
 * Null for any other text; a zone that is a name, or one beside a second group, stays unreadable.
 */
export function removeZone(text: string): string | null {
  const [, address, zone, mask] = zoned.exec(text) ?? [];
  if (address === undefined || zone === undefined) return null;
  const parsed = parseNetwork(address);
  const group = BigInt(zone);
  if (!parsed.ok || group > 0xffffn) return null;
  const value = parsed.value.network.first;
  if (((value >> secondGroup) & 0xffffn) !== 0n) return null;
  return `${formatAddress(6, value | (group << secondGroup))}${mask}`;
}
