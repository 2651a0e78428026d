import { isDeepStrictEqual } from 'node:util';
import { type Family, type Network, parseNetwork } from '../model/address.ts';
import type { Ports } from '../model/port-range.ts';
import { fail, ok, type Result } from '../model/result.ts';
import type { Action } from '../model/rule.ts';

/** One element of a set: an interval of addresses, for port sets with one transport protocol and its ports. */
export interface FilterElement {
  readonly first: bigint;
  readonly last: bigint;
  readonly ports: Ports | null;
}

/** What the name of a set says: whose traffic, which family, what happens, and whether ports count. */
export interface SetKind {
  readonly userId: string | null;
  readonly family: Family;
  readonly action: Action;
  readonly withPorts: boolean;
}

/** A set that holds the elements of rules (observed: recordings/nft_table). */
interface FilterSet {
  readonly kind: SetKind;
  readonly elements: readonly FilterElement[];
}

/** A rule of the `forward` chain or of a user's chain, as far as its meaning is known. */
export type ChainRule = (Devices & { readonly type: 'jump' }) | { readonly type: 'verdict'; readonly kind: SetKind };

/** Something in the table that this program has no meaning for: shown to a person, never guessed at. */
export interface Unknown {
  /** `element of the set ip_drop`. */
  readonly where: string;
  readonly detail: string;
}

/** The kernel's table `inet firezone`, decoded. Chains and sets by name; the rules of a chain in the kernel's order. */
export interface FilterTable {
  readonly sets: ReadonlyMap<string, FilterSet>;
  readonly chains: ReadonlyMap<string, readonly ChainRule[]>;
  readonly unknown: readonly Unknown[];
  /** Somebody switched the table off: its chains are hooked to nothing. */
  readonly dormant?: boolean;
  /** The kernel's own number of this table; absent when nft did not say. */
  readonly handle?: number;
}

const uuid = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}';
const ruleSetName = new RegExp(`^(?:user(${uuid})_)?(ip6?)_(accept|drop)(_layer4)?$`);
const deviceSetName = new RegExp(`^user(${uuid})_(ip6?)_devices$`);
/** A chain that belongs to a user. */
const userChainName = new RegExp(`^user${uuid}$`);

/** The kind of a set that holds rules, by its name; null for another name. */
export function readSetKind(name: string): SetKind | null {
  const [, userId = null, ip, action, layer] = ruleSetName.exec(name) ?? [];
  if (ip === undefined) return null;
  const withPorts = layer !== undefined;
  return { userId, family: ip === 'ip' ? 4 : 6, action: action === 'accept' ? 'accept' : 'drop', withPorts };
}

export function formatSetName(kind: SetKind): string {
  const family = kind.family === 4 ? 'ip' : 'ip6';
  return `${kind.userId === null ? '' : `user${kind.userId}_`}${family}_${kind.action}${kind.withPorts ? '_layer4' : ''}`;
}

/** Whose devices' addresses a set holds, and of which family. */
interface Devices {
  readonly userId: string;
  readonly family: Family;
}

/** What a set of the addresses of a user's devices holds, by its name; null for another name. */
function readDeviceSet(name: string): Devices | null {
  const match = deviceSetName.exec(name);
  return match?.[1] === undefined ? null : { userId: match[1], family: match[2] === 'ip' ? 4 : 6 };
}

/** The name of a user's chain; the chain of the global rules is `forward`. */
export function nameChain(userId: string | null): string {
  return userId === null ? 'forward' : `user${userId}`;
}

interface Draft {
  readonly sets: Map<string, FilterSet>;
  readonly chains: Map<string, ChainRule[]>;
  readonly unknown: Unknown[];
}

/** Decodes `nft -j list table inet firezone` (observed: recordings/nft_table); what is not known becomes an `Unknown`. */
export function decodeTable(body: unknown): Result<FilterTable, string> {
  const items = getMember(body, 'nftables');
  if (!Array.isArray(items)) return fail('the output of nft is not a list of objects under "nftables"');
  const draft: Draft = { sets: new Map(), chains: new Map(), unknown: [] };
  const table = items.map((item) => getMember(item, 'table')).find((item) => item !== undefined);
  if (table === undefined) return fail('the output of nft holds no table');
  const handle = getMember(table, 'handle');
  for (const item of items) decodeItem(item, draft);
  const wireguard = findInterface(items);
  for (const item of items) decodeChainRule(getMember(item, 'rule'), wireguard, draft);
  const dormant = [getMember(table, 'flags')].flat().includes('dormant');
  return ok({ ...draft, dormant, ...(typeof handle === 'number' ? { handle } : {}) });
}

function decodeItem(item: unknown, draft: Draft): void {
  const set = getMember(item, 'set');
  const chain = getMember(item, 'chain');
  if (set !== undefined) decodeSet(set, draft);
  else if (chain !== undefined) decodeChain(chain, draft);
  else if (!['metainfo', 'table', 'rule'].some((known) => getMember(item, known) !== undefined)) {
    draft.unknown.push({ where: `object ${Object.keys(Object(item)).join(', ')}`, detail: shorten(item) });
  }
}

function decodeSet(set: unknown, draft: Draft): void {
  const name = String(getMember(set, 'name'));
  if (readDeviceSet(name) !== null) return;
  const kind = readSetKind(name);
  const elem = getMember(set, 'elem') ?? [];
  if (kind === null || !Array.isArray(elem)) {
    draft.unknown.push({ where: `set ${name}`, detail: shorten(set) });
    return;
  }
  const elements: FilterElement[] = [];
  for (const value of elem) {
    const element = decodeElement(value, kind);
    if (element === null) draft.unknown.push({ where: `element of the set ${name}`, detail: shorten(value) });
    else elements.push(element);
  }
  draft.sets.set(name, { kind, elements });
}

/** Decodes one element as `nft -j` prints it, also inside `{elem: {val}}`; null for another form, family or protocol. */
function decodeElement(value: unknown, { family, withPorts }: SetKind): FilterElement | null {
  const plain = getPath(value, 'elem', 'val') ?? value;
  const concat = getMember(plain, 'concat');
  if (!withPorts) return concat === undefined ? readAddresses(plain, family) : null;
  if (!Array.isArray(concat) || concat.length !== 3) return null;
  const addresses = readAddresses(concat[0], family);
  const ports = readPorts(concat[1], concat[2]);
  return addresses === null || ports === null ? null : { ...addresses, ports };
}

/** An address, a prefix or a range, with any ports. */
function readAddresses(value: unknown, family: Family): FilterElement | null {
  const [addr, len] = [getPath(value, 'prefix', 'addr'), getPath(value, 'prefix', 'len')];
  const whole = typeof addr === 'string' && typeof len === 'number' ? `${addr}/${len}` : value;
  const low = readNetwork(getPath(value, 'range', '0') ?? whole, family);
  const high = readNetwork(getPath(value, 'range', '1') ?? whole, family);
  if (low === null || high === null || low.first > high.last) return null;
  return { first: low.first, last: high.last, ports: null };
}

function readNetwork(text: unknown, family: Family): Network | null {
  const parsed = typeof text === 'string' ? parseNetwork(text) : null;
  return parsed?.ok && parsed.value.network.family === family ? parsed.value.network : null;
}

function readPorts(protocol: unknown, value: unknown): Ports | null {
  const type = protocol === 'tcp' || protocol === 6 ? 'tcp' : protocol === 'udp' || protocol === 17 ? 'udp' : null;
  const low = getPath(value, 'range', '0') ?? value;
  const high = getPath(value, 'range', '1') ?? value;
  if (type === null || !isPort(low) || !isPort(high) || low > high) return null;
  return { type, low, high };
}

function isPort(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= 65535;
}

function decodeChain(chain: unknown, draft: Draft): void {
  const name = String(getMember(chain, 'name'));
  const isForward =
    name === 'forward' && getMember(chain, 'hook') === 'forward' && getMember(chain, 'policy') === 'accept';
  if (isForward || userChainName.test(name)) draft.chains.set(name, []);
  else if (name !== 'postrouting') draft.unknown.push({ where: `chain ${name}`, detail: shorten(chain) });
}

/** Rules of `postrouting` masquerade and decide nothing (observed: recordings/nft_table). */
function decodeChainRule(rule: unknown, wireguard: string | undefined, draft: Draft): void {
  if (rule === undefined) return;
  const [chain, expr] = [String(getMember(rule, 'chain')), getMember(rule, 'expr')];
  if (chain === 'postrouting') return;
  const decoded = meaningOf(expr, wireguard);
  const rules = draft.chains.get(chain);
  if (decoded !== null && rules !== undefined) rules.push(decoded);
  else draft.unknown.push({ where: `rule of the chain ${chain}`, detail: shorten(expr) });
}

/** The one interface that verdicts ask for, the same in each; its name is the server's to choose. Undefined: no name stands there. */
function findInterface(items: readonly unknown[]): string | undefined {
  const verdict = items.map((item) => getPath(item, 'rule', 'expr')).find((expr) => readSetKind(setOf(expr)) !== null);
  const name = getPath(verdict, '1', 'match', 'right');
  return typeof name === 'string' ? name : undefined;
}

/** The set that a rule of ours looks into first. */
function setOf(expr: unknown): string {
  return String(getPath(expr, '0', 'match', 'right')).slice(1);
}

/** Any expression but those that Firezone writes, a negation or a further condition, has no known meaning here. */
function meaningOf(expr: unknown, wireguard: string | undefined): ChainRule | null {
  const set = setOf(expr);
  const [devices, kind] = [readDeviceSet(set), readSetKind(set)];
  if (devices !== null && isDeepStrictEqual(expr, makeJump(devices, set))) return { type: 'jump', ...devices };
  return kind !== null && isDeepStrictEqual(expr, makeVerdict(kind, set, wireguard)) ? { type: 'verdict', kind } : null;
}

/** `ip saddr @userU_ip_devices jump userU` (observed: recordings/nft_table). */
function makeJump({ userId, family }: Devices, set: string): unknown {
  return [makeMatch(makeField(ipOf(family), 'saddr'), `@${set}`), { jump: { target: nameChain(userId) } }];
}

/** `ip daddr [. meta l4proto . th dport] @SET iifname WG accept|drop` (observed: recordings/nft_table). */
function makeVerdict({ family, withPorts, action }: SetKind, set: string, wireguard: string | undefined): unknown {
  const address = makeField(ipOf(family), 'daddr');
  const left = withPorts ? { concat: [address, { meta: { key: 'l4proto' } }, makeField('th', 'dport')] } : address;
  return [makeMatch(left, `@${set}`), makeMatch({ meta: { key: 'iifname' } }, wireguard), { [action]: null }];
}

function makeMatch(left: unknown, right: unknown): unknown {
  return { match: { op: '==', left, right } };
}

function makeField(protocol: string, field: string): unknown {
  return { payload: { protocol, field } };
}

function ipOf(family: Family): string {
  return family === 4 ? 'ip' : 'ip6';
}

function shorten(value: unknown): string {
  const text = JSON.stringify(value) ?? '';
  return text.length > 160 ? `${text.slice(0, 160)}…` : text;
}

/** A member of an object; undefined when the value is no object or has none of that name. */
function getMember(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as Readonly<Record<string, unknown>>)[name]
    : undefined;
}

/** A member of a member, and so on; an item of a list goes by its position. */
function getPath(value: unknown, ...names: readonly string[]): unknown {
  return names.reduce(getMember, value);
}
