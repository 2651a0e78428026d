import type { Profile } from '../../model/profile.ts';
import type { Rule } from '../../model/rule.ts';
import { listRules, type Operation } from '../operations.ts';
import { formatStepId, type RuleStep } from '../plan.ts';
import { groupConnected } from '../union-find.ts';
import { orderByRank } from './baseline.ts';
import { orderComponents } from './component.ts';
import { findDependencies } from './dependencies.ts';
import { groupGaps, nameGaps, rebuildsLast } from './gaps.ts';
import { findKeptRules } from './regions.ts';
import { relate } from './sharing.ts';

export interface Order {
  readonly steps: readonly RuleStep[];
  /** Components that may expose traffic; all others expose nothing. */
  readonly suspects: readonly Suspect[];
}

/** A component as positions in `steps`, ascending, and the rules around it that stay. */
export interface Suspect {
  readonly positions: readonly number[];
  readonly kept: readonly Rule[];
}

export interface OrderInput {
  readonly operations: readonly Operation[];
  /** The rules that are there before, all the way, and after. */
  readonly kept: readonly Rule[];
  readonly profile: Profile;
}

/**
 * Puts the operations in an order that the server accepts at every step and that exposes as little traffic as possible.
 *
 * Operations that share packets form components, whose costs add. Where nothing collides and nothing is updated in place, rank
 * order exposes nothing, and no region is ever looked at; nor is it where two operations leave no choice. The other
 * components are each ordered by cost, and listed after the other creates and before the other deletes; what may make the
 * server rebuild its filter comes last of all.
 */
export function orderOperations({ operations, kept, profile }: OrderInput): Order {
  const { sharing, blockers } = relate(operations, profile.refusesCollisions);
  const components = groupConnected(operations.length, (connect) => {
    for (let i = 0; i < sharing.length; i += 2) connect(sharing[i] as number, sharing[i + 1] as number);
  });
  const gaps = groupGaps(operations, blockers);
  const { needs, late } = rebuildsLast(operations, components, blockers, gaps);
  const baseline = orderByRank(operations, needs);
  const place = new Int32Array(operations.length);
  for (let position = 0; position < baseline.length; position++) place[baseline[position] as number] = position;
  const bound = components
    .filter((component) => isBound(component, operations, needs))
    .map((component) => component.toSorted((a, b) => (place[a] as number) - (place[b] as number)))
    .sort((a, b) => (place[a[0] as number] as number) - (place[b[0] as number] as number));
  const around = findKeptRules(operations, bound, kept);
  const context = { operations, needs, gaps, users: countUsers(operations, kept) };
  const found = orderComponents(
    bound.map((members, index) => ({ members, kept: around[index] ?? [] })),
    context,
  );
  const order = listed(operations, { baseline, found: found.flatMap(({ order: own }) => own) }, late);
  for (let position = 0; position < order.length; position++) place[order[position] as number] = position;
  const after = findDependencies({ operations, order, positions: place, sharing, needs, components });
  const names = nameGaps(order, gaps);
  const ids = order.map((_, position) => formatStepId(position));
  return {
    steps: order.map((operation, position) => ({
      id: ids[position] as string,
      after: (after[position] ?? []).map((earlier) => ids[earlier] as string),
      gap: names[position] ?? null,
      ...(operations[operation] as Operation),
    })),
    suspects: found
      .filter(({ suspect }) => suspect)
      .map(({ order: own, kept: near }) => ({
        positions: own.map((operation) => place[operation] as number).sort((a, b) => a - b),
        kept: near,
      })),
  };
}

/** Whether rank order may not be the best, or not even valid. */
function isBound(
  component: readonly number[],
  operations: readonly Operation[],
  needs: readonly (readonly number[])[],
): boolean {
  return component.some((operation) => (needs[operation] ?? []).length > 0 || operations[operation]?.type === 'update');
}

function countUsers(operations: readonly Operation[], kept: readonly Rule[]): number {
  const users = new Set(kept.map(({ userId }) => userId));
  for (const { rule } of listRules(operations)) users.add(rule.userId);
  users.delete(null);
  return users.size;
}

/** The one listed order: free creates and updates, components as found, free deletes; what is to be late at the end. */
function listed(
  operations: readonly Operation[],
  { baseline, found }: { readonly baseline: readonly number[]; readonly found: readonly number[] },
  late: ReadonlySet<number>,
): readonly number[] {
  const isFound = new Uint8Array(operations.length);
  for (const operation of found) isFound[operation] = 1;
  const free = baseline.filter((operation) => isFound[operation] === 0 && !late.has(operation));
  const isDelete = (operation: number): boolean => operations[operation]?.type === 'delete';
  return [
    ...free.filter((operation) => !isDelete(operation)),
    ...found.filter((operation) => !late.has(operation)),
    ...free.filter(isDelete),
    ...found.filter((operation) => late.has(operation)),
    ...baseline.filter((operation) => isFound[operation] === 0 && late.has(operation)),
  ];
}
