import { formatAddress, parseNetwork } from '../model/address.ts';

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
