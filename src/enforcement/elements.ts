import { coverRange, type Family, parseNetwork } from '../model/address.ts';
import type { Ports } from '../model/port-range.ts';
import type { Rule } from '../model/rule.ts';
import type { FilterElement, SetKind } from './table.ts';

type Interval = readonly [first: bigint, last: bigint];

/** Decodes one element as `nft -j` prints it, also inside `{elem: {val}}`; null for another form, family or protocol. */
export function decodeElement(value: unknown, kind: SetKind): FilterElement | null {
  const plain = getPath(value, 'elem', 'val') ?? value;
  const concat = getMember(plain, 'concat');
  if (!kind.withPorts) {
    const addresses = concat === undefined ? addressInterval(plain, kind.family) : null;
    return addresses === null ? null : { first: addresses[0], last: addresses[1], ports: null };
  }
  if (!Array.isArray(concat) || concat.length !== 3) return null;
  const addresses = addressInterval(concat[0], kind.family);
  const ports = portsOf(concat[1], concat[2]);
  return addresses === null || ports === null ? null : { first: addresses[0], last: addresses[1], ports };
}

/** The rules that mean exactly what an element of such a set does: one for each CIDR of its interval. */
export function toRules({ first, last, ports }: FilterElement, { family, action, userId }: SetKind): readonly Rule[] {
  return coverRange(family, first, last).map((destination) => ({ action, destination, ports, userId }));
}

function addressInterval(value: unknown, family: Family): Interval | null {
  if (typeof value === 'string') return intervalOfText(value, family);
  const [addr, len] = [getPath(value, 'prefix', 'addr'), getPath(value, 'prefix', 'len')];
  if (typeof addr === 'string' && typeof len === 'number') return intervalOfText(`${addr}/${len}`, family);
  const range = getMember(value, 'range');
  if (!Array.isArray(range) || typeof range[0] !== 'string' || typeof range[1] !== 'string') return null;
  const low = intervalOfText(range[0], family);
  const high = intervalOfText(range[1], family);
  return low === null || high === null || low[0] > high[1] ? null : [low[0], high[1]];
}

function intervalOfText(text: string, family: Family): Interval | null {
  const parsed = parseNetwork(text);
  if (!parsed.ok || parsed.value.network.family !== family) return null;
  return [parsed.value.network.first, parsed.value.network.last];
}

function portsOf(protocol: unknown, value: unknown): Ports | null {
  const type = protocol === 'tcp' || protocol === 6 ? 'tcp' : protocol === 'udp' || protocol === 17 ? 'udp' : null;
  const range = getMember(value, 'range');
  const low = typeof value === 'number' ? value : Array.isArray(range) ? range[0] : null;
  const high = typeof value === 'number' ? value : Array.isArray(range) ? range[1] : null;
  if (type === null || !isPort(low) || !isPort(high) || low > high) return null;
  return { type, low, high };
}

function isPort(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= 65535;
}

/** A member of an object; undefined when the value is no object or has none of that name. */
export function getMember(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as Readonly<Record<string, unknown>>)[name]
    : undefined;
}

/** A member of a member, and so on; an item of a list goes by its position. */
export function getPath(value: unknown, ...names: readonly string[]): unknown {
  return names.reduce(getMember, value);
}
