import { createOverlapIndex } from '../rules/overlap.ts';
import type { RuleRow } from '../rules/rule.ts';

/** The kernel refused a change; the real server's packet filter crashes on it. */
export class FilterError extends Error {}

export type ElementTable = ReturnType<typeof createElementTable>;

/** The kernel's sets in memory, and what the kernel refuses (observed: recordings/packet_filter_crash, packet_filter_users). */
export function createElementTable() {
  const held = new Map<string, RuleRow>();
  let users = new Set<string>();
  let overlaps = createOverlapIndex();
  const take = (key: string, element: RuleRow): void => {
    held.delete(key);
    overlaps.delete(element);
  };
  const checkSet = ({ userId }: RuleRow): void => {
    if (userId !== null && !users.has(userId)) throw new FilterError('No such file or directory');
  };
  return {
    elements: (): IterableIterator<RuleRow> => held.values(),
    /** Empties the table; every user has its sets again. */
    reset(userIds: readonly string[]): void {
      held.clear();
      users = new Set(userIds);
      overlaps = createOverlapIndex();
    },
    addUser: (userId: string): void => void users.add(userId),
    /** The user's sets go, with what they hold. */
    deleteUser(userId: string): void {
      users.delete(userId);
      for (const [key, element] of held) if (element.userId === userId) take(key, element);
    },
    /** Adds an element; false: it is there already. */
    add(element: RuleRow): boolean {
      checkSet(element);
      const key = keyOf(element);
      if (held.has(key)) return false;
      if (overlaps.conflicts(element)) throw new FilterError('interval overlaps with an existing one');
      overlaps.add(element);
      held.set(key, element);
      return true;
    },
    delete(element: RuleRow): void {
      checkSet(element);
      const key = keyOf(element);
      if (!held.has(key)) throw new FilterError('element does not exist');
      take(key, element);
    },
  };
}

function keyOf({ userId, action, network, ports }: RuleRow): string {
  const span = ports === null ? '-' : `${ports.type} ${ports.range.low} ${ports.range.high}`;
  return `${userId ?? '-'} ${action} ${network.family} ${network.bits} ${span}`;
}
