import { collides, type Rule } from '../../model/rule.ts';
import { eachMeeting } from '../meeting.ts';
import { listRules, type Operation } from '../operations.ts';

interface Placed {
  readonly operation: number;
  readonly rule: Rule;
  readonly added: boolean;
}

/** How two operations bear on each other. */
export interface Relations {
  /** Pairs (even: one, odd: the other) of operations whose rules share a packet. */
  readonly sharing: readonly number[];
  /** By operation: those whose removed rule collides with its added one. */
  readonly blockers: readonly (readonly number[])[];
}

/** Finds which operations share a packet and, where the server refuses collisions, which must come before which. */
export function relate(operations: readonly Operation[], refusesCollisions: boolean): Relations {
  const placed = operations.flatMap((one, operation) => listRules(one).map((item) => ({ operation, ...item })));
  const sharing: number[] = [];
  const blockers = operations.map((): number[] => []);
  const block = (removing: Placed, adding: Placed): void => {
    const list = blockers[adding.operation];
    if (list !== undefined && list.at(-1) !== removing.operation) list.push(removing.operation);
  };
  eachMeeting(
    placed,
    ({ rule }) => rule,
    (outer, inner) => {
      if (outer.operation === inner.operation) return;
      sharing.push(outer.operation, inner.operation);
      if (!refusesCollisions || outer.added === inner.added || !collides(outer.rule, inner.rule)) return;
      if (outer.added) block(inner, outer);
      else block(outer, inner);
    },
  );
  return { sharing, blockers: blockers.map((list) => [...new Set(list)].sort((a, b) => a - b)) };
}
