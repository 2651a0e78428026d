import type { Family } from '../model/address.ts';
import { fail, ok, type Result } from '../model/result.ts';
import { decodeElement, getMember } from './elements.ts';
import {
  type ChainRule,
  type FilterElement,
  type FilterSet,
  type FilterTable,
  readChainUser,
  readDeviceSet,
  readSetKind,
  type Unknown,
} from './table.ts';

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
  const wireguard = commonest(items.flatMap((item) => interfacesOf(getMember(item, 'rule'))));
  for (const item of items) decodeChainRule(getMember(item, 'rule'), wireguard, draft);
  let elementCount = 0;
  for (const set of draft.sets.values()) elementCount += set.elements.length;
  const dormant = [getMember(table, 'flags')].flat().includes('dormant');
  return ok({ ...draft, elementCount, dormant, ...(typeof handle === 'number' ? { handle } : {}) });
}

function decodeItem(item: unknown, draft: Draft): void {
  const set = getMember(item, 'set');
  const chain = getMember(item, 'chain');
  if (set !== undefined) decodeSet(set, draft);
  else if (chain !== undefined) decodeChain(chain, draft);
  else if (!['metainfo', 'table', 'rule'].some((known) => getMember(item, known) !== undefined)) {
    draft.unknown.push({ what: 'object', name: Object.keys(Object(item)).join(', '), detail: shorten(item) });
  }
}

function decodeSet(set: unknown, draft: Draft): void {
  const name = String(getMember(set, 'name'));
  if (readDeviceSet(name) !== null) return;
  const kind = readSetKind(name);
  const elem = getMember(set, 'elem') ?? [];
  if (kind === null || !Array.isArray(elem)) {
    draft.unknown.push({ what: 'set', name, detail: shorten(set) });
    return;
  }
  const elements: FilterElement[] = [];
  for (const value of elem) {
    const element = decodeElement(value, kind);
    if (element === null) draft.unknown.push({ what: 'element', name, detail: shorten(value) });
    else elements.push(element);
  }
  draft.sets.set(name, { name, kind, elements });
}

function decodeChain(chain: unknown, draft: Draft): void {
  const name = String(getMember(chain, 'name'));
  const isForward =
    name === 'forward' && getMember(chain, 'hook') === 'forward' && getMember(chain, 'policy') === 'accept';
  if (isForward || readChainUser(name) !== null) draft.chains.set(name, []);
  else if (name !== 'postrouting') draft.unknown.push({ what: 'chain', name, detail: shorten(chain) });
}

/** Rules of `postrouting` masquerade and decide nothing (observed: recordings/nft_table). */
function decodeChainRule(rule: unknown, wireguard: string, draft: Draft): void {
  if (rule === undefined) return;
  const chain = String(getMember(rule, 'chain'));
  if (chain === 'postrouting') return;
  const decoded = meaningOf(getMember(rule, 'expr'), wireguard);
  const rules = draft.chains.get(chain);
  if (decoded !== null && rules !== undefined) rules.push(decoded);
  else draft.unknown.push({ what: 'rule', name: chain, detail: shorten(getMember(rule, 'expr')) });
}

/** The interfaces that a rule of ours asks for: one, the same in every rule; its name is the server's to choose. */
function interfacesOf(rule: unknown): readonly string[] {
  const expr = getMember(rule, 'expr');
  if (getMember(rule, 'chain') === 'postrouting' || !Array.isArray(expr)) return [];
  return expr.flatMap((entry: unknown) => {
    const match = getMember(entry, 'match');
    const name = getMember(match, 'right');
    return isInputInterface(match) && typeof name === 'string' ? [name] : [];
  });
}

function isInputInterface(match: unknown): boolean {
  return getMember(getMember(getMember(match, 'left'), 'meta'), 'key') === 'iifname';
}

function commonest(names: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].reduce((most, one) => (one[1] > most[1] ? one : most), ['', 0] as const)[0];
}

/**
 * A jump is `ip saddr @userU_ip_devices jump userU`; a verdict is `ip daddr [. l4proto . th dport] @SET iifname WG
 * accept|drop`. Any other form, a negation, a further condition or another interface, has no known meaning here.
 */
function meaningOf(expr: unknown, wireguard: string): ChainRule | null {
  if (!Array.isArray(expr)) return null;
  const last: unknown = expr.at(-1);
  const conditions = expr.slice(0, -1).map((entry: unknown) => getMember(entry, 'match'));
  if (conditions.some((condition) => getMember(condition, 'op') !== '==')) return null;
  const target = getMember(getMember(last, 'jump'), 'target');
  if (typeof target === 'string') return jumpOf(conditions, target);
  const action = last !== null && getMember(last, 'accept') !== undefined ? 'accept' : 'drop';
  if (getMember(last, action) === undefined || conditions.length !== 2) return null;
  const set = setReference(conditions[0]);
  const kind = set === null ? null : readSetKind(set);
  if (set === null || kind === null || kind.action !== action) return null;
  const left = getMember(conditions[0], 'left');
  const fits = kind.withPorts
    ? matchesConcat(left, kind.family)
    : fieldOf(left) === (kind.family === 4 ? 'ip.daddr' : 'ip6.daddr');
  const onInterface = isInputInterface(conditions[1]) && getMember(conditions[1], 'right') === wireguard;
  return fits && onInterface ? { type: 'verdict', set, kind } : null;
}

function jumpOf(conditions: readonly unknown[], target: string): ChainRule | null {
  const set = conditions.length === 1 ? setReference(conditions[0]) : null;
  const devices = set === null ? null : readDeviceSet(set);
  if (devices === null || readChainUser(target) !== devices.userId) return null;
  if (fieldOf(getMember(conditions[0], 'left')) !== (devices.family === 4 ? 'ip.saddr' : 'ip6.saddr')) return null;
  return { type: 'jump', ...devices };
}

function matchesConcat(left: unknown, family: Family): boolean {
  const parts = getMember(left, 'concat');
  return (
    Array.isArray(parts) &&
    parts.length === 3 &&
    fieldOf(parts[0]) === (family === 4 ? 'ip.daddr' : 'ip6.daddr') &&
    getMember(getMember(parts[1], 'meta'), 'key') === 'l4proto' &&
    fieldOf(parts[2]) === 'th.dport'
  );
}

function fieldOf(left: unknown): string {
  const payload = getMember(left, 'payload');
  return `${String(getMember(payload, 'protocol'))}.${String(getMember(payload, 'field'))}`;
}

function setReference(condition: unknown): string | null {
  const right = getMember(condition, 'right');
  return typeof right === 'string' && right.startsWith('@') ? right.slice(1) : null;
}

function shorten(value: unknown): string {
  const text = JSON.stringify(value) ?? '';
  return text.length > 160 ? `${text.slice(0, 160)}…` : text;
}
