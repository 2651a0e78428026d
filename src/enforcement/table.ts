import type { Family } from '../model/address.ts';
import type { Ports } from '../model/port-range.ts';
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
export interface FilterSet {
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
export const userChainName = new RegExp(`^user${uuid}$`);

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
export interface Devices {
  readonly userId: string;
  readonly family: Family;
}

/** What a set of the addresses of a user's devices holds, by its name; null for another name. */
export function readDeviceSet(name: string): Devices | null {
  const match = deviceSetName.exec(name);
  return match?.[1] === undefined ? null : { userId: match[1], family: match[2] === 'ip' ? 4 : 6 };
}

/** The name of a user's chain; the chain of the global rules is `forward`. */
export function nameChain(userId: string | null): string {
  return userId === null ? 'forward' : `user${userId}`;
}
