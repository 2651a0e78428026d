import { getOrMake } from '../../model/group-by.ts';
import { collides } from '../../model/rule.ts';
import { eachMeeting } from '../meeting.ts';
import { type ChangedRule, listRules, type Operation } from '../operations.ts';

export interface Relations {
  /** Pairs (even: one, odd: the other) of operations whose rules share a packet. */
  readonly sharing: readonly number[];
  /** By operation: those whose removed rule collides with its added one. */
  readonly blockers: readonly (readonly number[])[];
}

const none: readonly number[] = [];

/** Finds which operations share a packet and, where the server refuses collisions, which must come before which. */
export function relate(operations: readonly Operation[], refusesCollisions: boolean): Relations {
  const sharing: number[] = [];
  const blockers = new Array<readonly number[]>(operations.length).fill(none);
  const found = new Map<number, Set<number>>();
  const block = (removing: ChangedRule, adding: ChangedRule): void => {
    getOrMake(found, adding.operation, () => new Set()).add(removing.operation);
  };
  eachMeeting(
    listRules(operations),
    ({ rule }) => rule,
    (outer, inner) => {
      if (outer.operation === inner.operation) return;
      sharing.push(outer.operation, inner.operation);
      if (!refusesCollisions || outer.added === inner.added || !collides(outer.rule, inner.rule)) return;
      if (outer.added) block(inner, outer);
      else block(outer, inner);
    },
  );
  for (const [operation, removing] of found) blockers[operation] = [...removing].sort((a, b) => a - b);
  return { sharing, blockers };
}
