import { OverlapIndex } from '../rules/overlap.ts';
import type { RuleRow } from '../rules/rule.ts';

/** The kernel refused a change; the real server's packet filter crashes on it. */
export class FilterError extends Error {}

/** The kernel's sets in memory, and what the kernel refuses (observed: recordings/packet_filter_crash, packet_filter_users). */
export class ElementTable {
  readonly #held = new Map<string, RuleRow>();
  #users = new Set<string>();
  #overlaps = new OverlapIndex();

  /** Empties the table; every user has its sets again. */
  reset(userIds: readonly string[]): void {
    this.#held.clear();
    this.#users = new Set(userIds);
    this.#overlaps = new OverlapIndex();
  }

  elements(): IterableIterator<RuleRow> {
    return this.#held.values();
  }

  addUser(userId: string): void {
    this.#users.add(userId);
  }

  /** The user's sets go, with what they hold. */
  deleteUser(userId: string): void {
    this.#users.delete(userId);
    for (const [key, element] of this.#held) if (element.userId === userId) this.#take(key, element);
  }

  /** Adds an element; false: it is there already. */
  add(element: RuleRow): boolean {
    this.#checkSet(element);
    const key = keyOf(element);
    if (this.#held.has(key)) return false;
    if (this.#overlaps.conflicts(element)) throw new FilterError('interval overlaps with an existing one');
    this.#overlaps.add(element);
    this.#held.set(key, element);
    return true;
  }

  delete(element: RuleRow): void {
    this.#checkSet(element);
    const key = keyOf(element);
    if (!this.#held.has(key)) throw new FilterError('element does not exist');
    this.#take(key, element);
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
