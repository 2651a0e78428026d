import { isIPv6 } from 'node:net';

/** An IP address as numbers: four octets, or eight groups of 16 bits. */
export interface Address {
  readonly family: 4 | 6;
  readonly parts: readonly number[];
}

/** Reads an address as leniently as the server: octal, hexadecimal, short forms, zones (recordings/rule_create_destination). */
export function parseAddress(text: string): Address | undefined {
  return parseIpv4(text) ?? parseIpv6(text);
}

/** The classic `inet_aton` forms: one to four fields, the last one filling the remaining octets. */
function parseIpv4(text: string): Address | undefined {
  const fields = text.split('.');
  if (fields.length > 4) return undefined;
  let value = 0;
  for (const [index, field] of fields.entries()) {
    const number = parseIpv4Field(field);
    const width = index < fields.length - 1 ? 8 : 8 * (5 - fields.length);
    if (number === undefined || number >= 2 ** width) return undefined;
    value = value * 2 ** width + number;
  }
  return { family: 4, parts: [(value >>> 24) & 255, (value >>> 16) & 255, (value >>> 8) & 255, value & 255] };
}

/** One field: `0x` hexadecimal (8 digits at most), a leading `0` octal (11), else decimal (10), each with a sign. */
function parseIpv4Field(field: string): number | undefined {
  if (/^0x/i.test(field)) return signed(field.slice(2).replace(/^0+/, ''), /^[+-]?[0-9a-f]+$/i, 16, 8);
  if (field.startsWith('0')) return /^0+(?:[1-7][0-7]{0,10})?$/.test(field) ? Number.parseInt(field, 8) : undefined;
  return signed(field, /^[+-]?[0-9]+$/, 10, 10);
}

function signed(digits: string, form: RegExp, base: number, longest: number): number | undefined {
  if (digits.length > longest || !form.test(digits)) return undefined;
  const value = Number.parseInt(digits, base);
  return value < 0 ? undefined : Math.abs(value);
}

function parseIpv6(text: string): Address | undefined {
  const [written = '', zone] = text.split(/%(.*)/s);
  const groups = parseGroups(written);
  if (groups === undefined) return undefined;
  return zone === undefined ? { family: 6, parts: groups } : withZone(groups, zone);
}

/** Zones exist for fe80 and ff02 only; the runtime keeps a numeric zone (written `0N`) in the second group. */
function withZone(groups: readonly number[], zone: string): Address | undefined {
  const [first, second, ...rest] = groups;
  if (first === undefined || second !== 0 || !isZoned(first)) return undefined;
  const digits = zone.startsWith('0') ? zone.slice(1) : '';
  if (!/^[0-9]*$/.test(digits) || Number(digits) > 0xffff) return undefined;
  return { family: 6, parts: [first, Number(digits), ...rest] };
}

const isZoned = (first: number): boolean => first === 0xfe80 || first === 0xff02;

/** The eight groups of an address without a zone. */
function parseGroups(text: string): readonly number[] | undefined {
  if (!isIPv6(text)) return undefined;
  const [before = [], after] = text.split('::').map((half) => half.split(':').flatMap(parseGroup));
  return after === undefined
    ? before
    : [...before, ...new Array<number>(8 - before.length - after.length).fill(0), ...after];
}

/** One group, two of a dotted tail, or none before or after `::`. */
function parseGroup(field: string): readonly number[] {
  if (field === '') return [];
  if (!field.includes('.')) return [Number.parseInt(field, 16)];
  const [a = 0, b = 0, c = 0, d = 0] = field.split('.').map(Number);
  return [a * 256 + b, c * 256 + d];
}

/** The runtime's spelling: IPv4-mapped and IPv4-compatible addresses keep a dotted tail, the leftmost longest run of zeros is `::`. */
export function printAddress(address: Address): string {
  if (address.family === 4) return address.parts.join('.');
  const [first = 0, zone = 0, ...rest] = address.parts;
  const head = address.parts.slice(0, 6).join(':');
  if (head === '0:0:0:0:0:0' || head === `0:0:0:0:0:${0xffff}`) return dottedTail(address.parts);
  return isZoned(first) && zone !== 0 ? `${compress([first, 0, ...rest])}%0${zone}` : compress(address.parts);
}

function dottedTail([, , , , , mapped, high = 0, low = 0]: readonly number[]): string {
  if (mapped === 0 && high === 0 && low < 2) return low === 0 ? '::' : '::1';
  return `::${mapped === 0 ? '' : 'ffff:'}${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`;
}

function compress(groups: readonly number[]): string {
  const hex = groups.map((group) => group.toString(16)).join(':');
  return new URL(`http://[${hex}]`).hostname.slice(1, -1);
}

/** The address as a string of `0` and `1`, 32 or 128 long. */
export function formatAddressBits(address: Address): string {
  const width = address.family === 4 ? 8 : 16;
  return address.parts.map((part) => part.toString(2).padStart(width, '0')).join('');
}
