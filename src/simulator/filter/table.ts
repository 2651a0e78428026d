import type { NftTable } from '../nft.ts';
import { OverlapIndex } from '../rules/overlap.ts';
import type { RuleRow } from '../rules/rule.ts';
import type { TableElement } from './element.ts';

/** The kernel refused a change; the real server's packet filter crashes on it. */
export class FilterError extends Error {}

/** Has a real kernel take a change that the sets in memory took. */
export type Mirror = (change: (kernel: NftTable) => Promise<boolean>) => void;

/** The kernel's sets in memory, and what the kernel refuses (observed: recordings/packet_filter_crash, packet_filter_users). */
export class ElementTable {
  readonly #mirror: Mirror;
  readonly #held = new Map<string, TableElement>();
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

  elements(): IterableIterator<TableElement> {
    return this.#held.values();
  }

  addUser(userId: string): void {
    this.#users.add(userId);
    this.#mirror((kernel) => kernel.addUser(userId));
  }

  /** The user's sets go, with what they hold. */
  deleteUser(userId: string): void {
    this.#users.delete(userId);
    for (const [key, element] of this.#held) if (element.user === userId) this.#take(key, element);
    this.#mirror((kernel) => kernel.deleteUser(userId));
  }

  add(element: TableElement): void {
    this.#checkSet(element);
    const key = keyOf(element);
    if (this.#held.has(key)) return;
    if (this.#overlaps.conflicts(candidateOf(element))) throw new FilterError('interval overlaps with an existing one');
    this.#overlaps.add(candidateOf(element));
    this.#held.set(key, element);
    this.#mirror((kernel) => kernel.add(element));
  }

  delete(element: TableElement): void {
    this.#checkSet(element);
    const key = keyOf(element);
    if (!this.#held.has(key)) throw new FilterError('element does not exist');
    this.#take(key, element);
    this.#mirror((kernel) => kernel.delete(element));
  }

  #take(key: string, element: TableElement): void {
    this.#held.delete(key);
    this.#overlaps.delete(candidateOf(element));
  }

  #checkSet({ user }: TableElement): void {
    if (user !== null && !this.#users.has(user)) throw new FilterError('No such file or directory');
  }
}

function keyOf({ user, action, network, ports }: TableElement): string {
  const span = ports === null ? '-' : `${ports.type} ${ports.range.low} ${ports.range.high}`;
  return `${user ?? '-'} ${action} ${network.family} ${network.bits} ${span}`;
}

function candidateOf(element: TableElement): Pick<RuleRow, 'action' | 'network' | 'ports' | 'userId'> {
  return { ...element, userId: element.user };
}
