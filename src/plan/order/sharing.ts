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
  readonly sharing: Int32Array;
  /** By operation: those whose removed rule collides with its added one. */
  readonly blockers: readonly (readonly number[])[];
}

/** Finds which operations share a packet and, where the server refuses collisions, which must come before which. */
export function relate(operations: readonly Operation[], refusesCollisions: boolean): Relations {
  const placed = operations.flatMap((one, operation) => listRules(one).map((item) => ({ operation, ...item })));
  const pairs = new PairList();
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
      pairs.add(outer.operation, inner.operation);
      if (!refusesCollisions || outer.added === inner.added || !collides(outer.rule, inner.rule)) return;
      if (outer.added) block(inner, outer);
      else block(outer, inner);
    },
  );
  return { sharing: pairs.list(), blockers: blockers.map((list) => [...new Set(list)].sort((a, b) => a - b)) };
}

class PairList {
  #pairs = new Int32Array(1024);
  #length = 0;

  add(a: number, b: number): void {
    if (this.#length + 2 > this.#pairs.length) {
      const larger = new Int32Array(this.#pairs.length * 2);
      larger.set(this.#pairs);
      this.#pairs = larger;
    }
    this.#pairs[this.#length++] = a;
    this.#pairs[this.#length++] = b;
  }

  list(): Int32Array {
    return this.#pairs.subarray(0, this.#length);
  }
}
