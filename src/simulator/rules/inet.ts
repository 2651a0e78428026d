import { trim } from '../cast.ts';
import { ServerCrash } from '../crash.ts';
import { type Address, formatAddressBits, parseAddress, printAddress } from './address.ts';

/** An address with the mask that was written beside it, any whole number; no mask means one host. */
export interface Inet {
  readonly address: Address;
  readonly mask: string | null;
}

/** Casts `address[/mask]`; the mask is any integer, its size is not looked at (that is the database's business). */
export function castInet(text: string): Inet | undefined {
  const trimmed = trim(text);
  const slash = trimmed.indexOf('/');
  const address = parseAddress(slash < 0 ? trimmed : trimmed.slice(0, slash));
  if (address === undefined) return undefined;
  if (slash < 0) return { address, mask: null };
  const mask = trimmed.slice(slash + 1);
  return /^[+-]?[0-9]+$/.test(mask) ? { address, mask: String(BigInt(mask.replace('+', ''))) } : undefined;
}

export function formatInet(inet: Inet): string {
  const address = printAddress(inet.address);
  return inet.mask === null ? address : `${address}/${inet.mask}`;
}

/** What the database holds: the mask as one byte, a full mask as a host; host bits stay (recordings/rule_create_destination). */
export function storeInet(inet: Inet): Inet {
  if (inet.mask === null) return inet;
  const bits = inet.address.family === 4 ? 32n : 128n;
  const mask = BigInt.asUintN(8, BigInt(inet.mask));
  if (mask > bits) throw new ServerCrash(`mask /${inet.mask} does not fit the address`);
  return { address: inet.address, mask: mask === bits ? null : String(mask) };
}

export function isSameInet(left: Inet, right: Inet): boolean {
  return left.mask === right.mask && printAddress(left.address) === printAddress(right.address);
}

/** A network as family and leading bits: two networks of a family intersect exactly if one's bits begin the other's. */
export interface NetworkBits {
  readonly family: 4 | 6;
  readonly bits: string;
}

export function toNetwork(stored: Inet): NetworkBits {
  const bits = formatAddressBits(stored.address);
  return { family: stored.address.family, bits: stored.mask === null ? bits : bits.slice(0, Number(stored.mask)) };
}
