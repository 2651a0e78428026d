import { canonicalizeNetwork } from '../model/address.ts';
import { formatPortRange, parsePortRange } from '../model/port-range.ts';
import { everyPort } from '../model/state.ts';
import type { Kind } from './manifest.ts';
import { isUuid, listFields } from './schema.ts';

export type Path = readonly (string | number)[];

const addressFields: ReadonlySet<string> = new Set(['destination', 'destinations', 'cidrs']);
const userFields: ReadonlySet<string> = new Set(['user_id', 'user', 'users', 'members']);

/** The canonical spelling of a scalar whose field has one; null for any other, and where a name is put in later. */
export function respell(kind: Kind, path: Path, text: string, value: unknown): string | number | null {
  const field = String(path.findLast((step) => typeof step === 'string'));
  if (path[0] !== 'spec' || text.includes('${')) return null;
  // One with host bits is likely a slip, and its warning must not be erased.
  if (addressFields.has(field)) return canonicalizeNetwork(text);
  if (field === 'port_range' || (field === 'port' && kind === 'PolicyTest')) {
    const ports = value === null ? null : parsePortRange(text, everyPort);
    if (ports?.ok !== true) return null;
    const { low, high } = ports.value;
    return low === high ? low : formatPortRange(ports.value).replaceAll(' ', '');
  }
  return (userFields.has(field) || kind === 'Users') && isUuid(text) ? text.toLowerCase() : null;
}

/** The members of a mapping in the order of the reference; those that it does not know go last. */
export function orderFields<T>(kind: Kind, path: Path, members: readonly T[], keyOf: (member: T) => string) {
  const fields = listFields(kind, path);
  const rank = (member: T): number => {
    const index = fields.indexOf(keyOf(member));
    return index < 0 ? fields.length : index;
  };
  return members.toSorted((a, b) => rank(a) - rank(b));
}
