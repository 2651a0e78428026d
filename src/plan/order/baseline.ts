import { compareRules, type Rule } from '../../model/rule.ts';
import { getRank } from '../../policy/verdict.ts';
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
  const wanted = [...operations.keys()].sort(
    (a, b) => compareOperations(operations[a] as Operation, operations[b] as Operation) || a - b,
  );
  const placed = new Uint8Array(operations.length);
  const order: number[] = [];
  for (const operation of wanted) {
    const path = [operation];
    while (path.length > 0) {
      const top = path.at(-1) as number;
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

const phases = { create: 0, update: 1, delete: 2 } as const;

function compareOperations(a: Operation, b: Operation): number {
  if (a.type !== b.type) return phases[a.type] - phases[b.type];
  const [x, y] = [ruleOf(a), ruleOf(b)];
  const byRank = getRank(x) - getRank(y);
  return (a.type === 'delete' ? -byRank : byRank) || compareRules(x, y);
}

function ruleOf(operation: Operation): Rule {
  return operation.type === 'delete' ? operation.live.rule : operation.rule;
}
