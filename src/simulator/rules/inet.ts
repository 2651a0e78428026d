import { trim } from '../cast.ts';
import { ServerCrash } from '../http/json.ts';
import { type Address, formatAddressBits, parseAddress, printAddress } from './address.ts';

/** An address with the mask that was written beside it; no mask means one host. */
interface Inet {
  readonly address: Address;
  readonly mask: bigint | null;
}

/** The mask is any integer, its size is not looked at (that is the database's business). */
function parseInet(text: string): Inet | undefined {
  const [written = '', mask] = trim(text).split(/\/(.*)/s);
  const address = parseAddress(written);
  if (address === undefined) return undefined;
  if (mask === undefined) return { address, mask: null };
  return /^[+-]?[0-9]+$/.test(mask) ? { address, mask: BigInt(mask.replace('+', '')) } : undefined;
}

function formatInet({ address, mask }: Inet): string {
  return mask === null ? printAddress(address) : `${printAddress(address)}/${mask}`;
}

/** Casts `address[/mask]` to the runtime's spelling of it; undefined for any other text. */
export function castInet(text: string): string | undefined {
  const inet = parseInet(text);
  return inet && formatInet(inet);
}

/** What the database holds: the mask as one byte, a full mask as a host; host bits stay (recordings/rule_create_destination). */
export function storeInet(cast: string): string {
  const { address, mask: written } = readInet(cast);
  if (written === null) return cast;
  const bits = address.family === 4 ? 32n : 128n;
  const mask = BigInt.asUintN(8, written);
  if (mask > bits) throw new ServerCrash(`mask /${written} does not fit the address`);
  return formatInet({ address, mask: mask === bits ? null : mask });
}

/** A network as family and leading bits: two networks of a family intersect exactly if one's bits begin the other's. */
export interface NetworkBits {
  readonly family: 4 | 6;
  readonly bits: string;
}

export function toNetwork(stored: string): NetworkBits {
  const { address, mask } = readInet(stored);
  const bits = formatAddressBits(address);
  return { family: address.family, bits: mask === null ? bits : bits.slice(0, Number(mask)) };
}

function readInet(cast: string): Inet {
  const inet = parseInet(cast);
  if (inet === undefined) throw new Error(`not a network: ${cast}`);
  return inet;
}

/** The network as text, host bits cleared. */
export function formatNetwork({ family, bits }: NetworkBits): string {
  const [count, width] = family === 4 ? [4, 8] : [8, 16];
  const all = bits.padEnd(count * width, '0');
  const parts = Array.from({ length: count }, (_, index) =>
    Number.parseInt(all.slice(index * width, (index + 1) * width), 2),
  );
  const address = printAddress({ family, parts });
  return bits.length === all.length ? address : `${address}/${bits.length}`;
}
