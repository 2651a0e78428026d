import { fail, ok, type Result } from './result.ts';

export type Family = 4 | 6;

const widths = { 4: 32, 6: 128 } as const;

/** A set of addresses that share a prefix, from `first` to `last`, host bits cleared; `text` is the canonical spelling, and its JSON. */
export class Network {
  readonly family: Family;
  readonly prefix: number;
  readonly first: bigint;
  readonly last: bigint;
  readonly text: string;
  /** Lower for networks of a lower family or address, and equal where both are, or round to one number; compared much faster. */
  readonly sortKey: number;

  /** The network of the prefix around an address (that address alone without one). A canonical text that was written is kept. */
  constructor(family: Family, address: bigint, prefix: number = widths[family], written?: string) {
    const hostWidth = BigInt(widths[family] - prefix);
    const first = (address >> hostWidth) << hostWidth;
    const lowest = formatAddress(family, first);
    const text = prefix === widths[family] ? lowest : `${lowest}/${prefix}`;
    this.family = family;
    this.prefix = prefix;
    this.first = first;
    this.last = prefix === widths[family] ? first : first + (1n << hostWidth) - 1n;
    this.text = text === written ? written : text;
    // Those of IPv4 are small integers, which take no memory of their own.
    this.sortKey = family === 4 ? Number(first) - 2 ** 31 : Number(first) + 2 ** 31;
  }

  toJSON(): string {
    return this.text;
  }
}

/** Why a text is not an address or network. The server accepts or mangles most of these silently (docs/reference/server.md). */
export type AddressFault =
  | 'empty'
  | 'not-an-address'
  | 'octal' // leading zeros, which the server reads as octal
  | 'short' // 10/8, 1.2.3, 0x7f.1: fewer than four decimal parts
  | 'zone' // fe80::1%eth0
  | 'mask' // not a decimal number in the family's bounds
  | 'dotted-mask'
  | 'brackets'
  | 'port'
  | 'range'
  | 'list'
  | 'hostname';

/** A parsed network and whether bits outside its prefix were set in the text (`10.0.0.1/8`). */
export interface ParsedNetwork {
  readonly network: Network;
  readonly hostBits: boolean;
  /** The text without surrounding space. */
  readonly written: string;
}

/** Number of bits of an address of the family: 32 or 128. */
export function getWidth(family: Family): number {
  return widths[family];
}

/** Parses an address or CIDR network as people write it; everything that the server would silently change is a fault. */
export function parseNetwork(input: string): Result<ParsedNetwork, AddressFault> {
  const text = input.trim();
  if (text === '') return fail('empty');
  const slash = text.indexOf('/');
  const addressText = slash < 0 ? text : text.slice(0, slash);
  const family: Family = addressText.includes(':') ? 6 : 4;
  const value = family === 4 ? parseV4(addressText) : parseV6(addressText);
  if (value === null) return fail(diagnose(text, addressText, family));
  let prefix: number = widths[family];
  if (slash >= 0) {
    const mask = text.slice(slash + 1);
    if (!/^(0|[1-9][0-9]{0,2})$/.test(mask)) return fail(/^[0-9]+\.[0-9.]+$/.test(mask) ? 'dotted-mask' : 'mask');
    prefix = Number(mask);
    if (prefix > widths[family]) return fail('mask');
  }
  const network = new Network(family, value, prefix, text);
  return ok({ network, hostBits: network.first !== value, written: text });
}

/** The canonical spelling of an address or network; any other text, and one with host bits, as it is. */
export function canonicalizeNetwork(text: string): string {
  const parsed = parseNetwork(text);
  return parsed.ok && !parsed.value.hostBits ? parsed.value.network.text : text;
}

/** The networks of those texts that spell one. */
export function readNetworks(texts: readonly string[]): readonly Network[] {
  return texts.map(parseNetwork).flatMap((parsed) => (parsed.ok ? [parsed.value.network] : []));
}

/** The fewest networks that cover exactly the addresses from `first` to `last`, in ascending order. */
export function coverRange(family: Family, first: bigint, last: bigint): Network[] {
  const networks: Network[] = [];
  for (let from = first; from <= last; ) {
    let size = (last - from + 1n).toString(2).length - 1;
    while (from % (1n << BigInt(size)) !== 0n) size--;
    const network = new Network(family, from, widths[family] - size);
    networks.push(network);
    from = network.last + 1n;
  }
  return networks;
}

/** Whether two networks share an address. Networks nest or are disjoint. */
export function intersects(a: Network, b: Network): boolean {
  return a.family === b.family && a.first <= b.last && b.first <= a.last;
}

/** Whether every address of `inner` is in `outer`. */
export function contains(outer: Network, inner: Network): boolean {
  return outer.family === inner.family && outer.first <= inner.first && inner.last <= outer.last;
}

/** Order: IPv4 first, then by lowest address, then the wider network first. */
export function compareNetworks(a: Network, b: Network): number {
  if (a.sortKey !== b.sortKey) return a.sortKey - b.sortKey;
  if (a.family === 6 && a.first !== b.first) return a.first < b.first ? -1 : 1;
  return a.prefix - b.prefix;
}

/** The server's canonical spelling of an address (observed: recordings/rule_create_destination). */
export function formatAddress(family: Family, value: bigint): string {
  return family === 4 ? formatV4(Number(value)) : formatV6(value);
}

function formatV4(value: number): string {
  return `${value >>> 24}.${(value >>> 16) & 255}.${(value >>> 8) & 255}.${value & 255}`;
}

function formatV6(value: bigint): string {
  if (value === 0n) return '::';
  if (value === 1n) return '::1';
  const high = value >> 32n;
  if (high === 0n) return `::${formatV4(Number(value))}`;
  if (high === 0xffffn) return `::ffff:${formatV4(Number(value & 0xffffffffn))}`;
  const groups = Array.from({ length: 8 }, (_, i) => Number((value >> BigInt(112 - 16 * i)) & 0xffffn));
  const text = groups.map((group) => group.toString(16)).join(':');
  const runs = text.match(/\b0(?::0)+\b/g) ?? [];
  const longest = runs.reduce((best, run) => (run.length > best.length ? run : best), '');
  return longest === '' ? text : text.replace(new RegExp(`(?:^|:)${longest}(?::|$)`), '::');
}

function parseV4(text: string): bigint | null {
  const match = /^(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})$/.exec(text);
  if (match === null) return null;
  let value = 0;
  for (let i = 1; i <= 4; i++) {
    const part = Number(match[i]);
    if (part > 255) return null;
    value = value * 256 + part;
  }
  return BigInt(value);
}

function parseV6(text: string): bigint | null {
  const halves = text.split('::');
  if (halves.length > 2) return null;
  const head = parseGroups(halves[0] ?? '', halves.length === 1);
  const tail = halves.length === 2 ? parseGroups(halves[1] ?? '', true) : [];
  if (head === null || tail === null) return null;
  const missing = 8 - head.length - tail.length;
  if (halves.length === 1 ? missing !== 0 : missing < 1) return null;
  let value = 0n;
  for (const group of [...head, ...new Array<number>(missing).fill(0), ...tail]) value = (value << 16n) | BigInt(group);
  return value;
}

function parseGroups(text: string, mayEndDotted: boolean): number[] | null {
  if (text === '') return [];
  const groups: number[] = [];
  const parts = text.split(':');
  for (const [index, part] of parts.entries()) {
    if (/^[0-9a-fA-F]{1,4}$/.test(part)) {
      groups.push(Number.parseInt(part, 16));
      continue;
    }
    const dotted = mayEndDotted && index === parts.length - 1 ? parseV4(part) : null;
    if (dotted === null) return null;
    groups.push(Number(dotted >> 16n), Number(dotted & 0xffffn));
  }
  return groups;
}

function diagnose(text: string, address: string, family: Family): AddressFault {
  if (address.includes('%')) return 'zone';
  if (/^[0-9a-f.:]*[0-9]\s*[-–]\s*[0-9a-f.:]+$/i.test(text)) return 'range';
  if (/[\s,;]/.test(text)) return 'list';
  if (address.startsWith('[')) return 'brackets';
  if (family === 6) return /^[0-9.]+:[0-9]+$/.test(address) ? 'port' : 'not-an-address';
  if (address.includes('-')) return /[a-zA-Z]/.test(address) ? 'hostname' : 'range';
  if (/^(0[xX][0-9a-fA-F]+|[0-9]+)(\.(0[xX][0-9a-fA-F]+|[0-9]+)){0,3}$/.test(address)) {
    if (address.split('.').length < 4 || /0[xX]/.test(address)) return 'short';
    return /(^|\.)0[0-9]/.test(address) ? 'octal' : 'not-an-address';
  }
  return /[a-zA-Z]/.test(address) ? 'hostname' : 'not-an-address';
}
