import type { RuleRow } from '../rules/rule.ts';
import { makeTableElement, type TableElement } from './element.ts';
import type { PacketFilter } from './filter.ts';
import { decideVerdict } from './verdict.ts';

/**
 * A packet filter that follows at once and never fails: an element comes with its rule and goes with its rule, and
 * what an update changed in between is not seen.
 */
export function createImmediateFilter(rows: Iterable<RuleRow>): PacketFilter {
  const elements = new Map<string, TableElement>();
  for (const row of rows) elements.set(row.id, makeTableElement(row));
  return {
    inserted: (row) => {
      elements.set(row.id, makeTableElement(row));
    },
    deleted: (row) => {
      elements.delete(row.id);
    },
    userDeleted: () => {},
    view: {
      verdict: (packet) => decideVerdict(elements.values(), packet),
      elements: () => [...elements.values()],
      state: () => ({ pending: 0, rebuilding: false, crashes: 0, lost: [] }),
    },
    close: () => {},
  };
}
