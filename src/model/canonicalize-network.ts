import { parseNetwork } from './address.ts';

/** The canonical spelling of an address or network; any other text, and one with host bits, as it is. */
export function canonicalizeNetwork(text: string): string {
  const parsed = parseNetwork(text);
  return parsed.ok && !parsed.value.hostBits ? parsed.value.network.text : text;
}
