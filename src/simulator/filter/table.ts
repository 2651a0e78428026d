import type { NftTable } from '../nft.ts';
import { OverlapIndex } from '../rules/overlap.ts';
import type { RuleRow } from '../rules/rule.ts';

/** The kernel refused a change; the real server's packet filter crashes on it. */
export class FilterError extends Error {}

/** Has a real kernel take a change that the sets in memory took. */
export type Mirror = (change: (kernel: NftTable) => Promise<boolean>) => void;

/** The kernel's sets in memory, and what the kernel refuses (observed: recordings/packet_filter_crash, packet_filter_users). */
export class ElementTable {
  readonly #mirror: Mirror;
  readonly #held = new Map<string, RuleRow>();
  #users = new Set<string>();
  #overlaps = new OverlapIndex();

  constructor(mirror: Mirror) {
    this.#mirror = mirror;
  }

  /** Empties the table; every user has its sets again. */
  reset(userIds: ReadonlySet<string>): void {
    this.#held.clear();
    this.#users = new Set(userIds);
    this.#overlaps = new OverlapIndex();
    this.#mirror((kernel) => kernel.reset([...userIds]));
  }

  elements(): IterableIterator<RuleRow> {
    return this.#held.values();
  }

  addUser(userId: string): void {
    this.#users.add(userId);
    this.#mirror((kernel) => kernel.addUser(userId));
  }

  /** The user's sets go, with what they hold. */
  deleteUser(userId: string): void {
    this.#users.delete(userId);
    for (const [key, element] of this.#held) if (element.userId === userId) this.#take(key, element);
    this.#mirror((kernel) => kernel.deleteUser(userId));
  }

  add(element: RuleRow): void {
    this.#checkSet(element);
    const key = keyOf(element);
    if (this.#held.has(key)) return;
    if (this.#overlaps.conflicts(element)) throw new FilterError('interval overlaps with an existing one');
    this.#overlaps.add(element);
    this.#held.set(key, element);
    this.#mirror((kernel) => kernel.add(element));
  }

  delete(element: RuleRow): void {
    this.#checkSet(element);
    const key = keyOf(element);
    if (!this.#held.has(key)) throw new FilterError('element does not exist');
    this.#take(key, element);
    this.#mirror((kernel) => kernel.delete(element));
  }

  #take(key: string, element: RuleRow): void {
    this.#held.delete(key);
    this.#overlaps.delete(element);
  }

  #checkSet({ userId }: RuleRow): void {
    if (userId !== null && !this.#users.has(userId)) throw new FilterError('No such file or directory');
  }
}

function keyOf({ userId, action, network, ports }: RuleRow): string {
  const span = ports === null ? '-' : `${ports.type} ${ports.range.low} ${ports.range.high}`;
  return `${userId ?? '-'} ${action} ${network.family} ${network.bits} ${span}`;
}
