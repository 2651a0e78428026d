import { compareRules, type Rule } from '../../model/rule.ts';
import { getRank, noRank } from '../../policy/verdict.ts';
import type { Operation } from '../operations.ts';

/**
 * Rank order with each needed operation just before the one that needs it: creates from the highest rank to the lowest, then
 * updates likewise, then the remaining deletes from the lowest rank to the highest. Where nothing collides this moves each
 * packet's verdict at most once, from the one before to the one after (docs/explanation/planning.md). Returns positions in `operations`.
 */
export function orderByRank(
  operations: readonly Operation[],
  needs: readonly (readonly number[])[],
): readonly number[] {
  const classes = operations.map(classOf);
  const rules = operations.map((one) => (one.type === 'delete' ? one.live.rule : one.rule));
  const wanted = [...operations.keys()].sort(
    (a, b) => (classes[a] as number) - (classes[b] as number) || compareRules(rules[a] as Rule, rules[b] as Rule),
  );
  const placed = new Uint8Array(operations.length);
  const order: number[] = [];
  const path: number[] = [];
  for (const operation of wanted) {
    path.push(operation);
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
      if (placed[top] === 1) {
        path.pop();
        continue;
      }
      const missing = (needs[top] ?? []).filter((need) => placed[need] === 0);
      if (missing.length > 0) {
        for (const one of missing.reverse()) path.push(one);
        if (path.length > operations.length ** 2 + 1) throw new Error('operations need each other in a circle');
        continue;
      }
      path.pop();
      placed[top] = 1;
      order.push(top);
    }
  }
  return order;
}

const phases = { create: 0, update: noRank, delete: 3 * noRank } as const;

/** The place of operations of its type and rank among all. */
function classOf(operation: Operation): number {
  return (
    phases[operation.type] + (operation.type === 'delete' ? -getRank(operation.live.rule) : getRank(operation.rule))
  );
}
