import type { Profile } from '../model/profile.ts';
import { isModifiedInPlace, type Rule } from '../model/rule.ts';
import type { Change, CreateStep, DeleteStep, StepPlace, UpdateStep } from './plan.ts';

/** One write to the rules, before it has a place in the order. */
export type Operation =
  | Omit<CreateStep, keyof StepPlace>
  | Omit<DeleteStep, keyof StepPlace>
  | Omit<UpdateStep, keyof StepPlace>;

/** The writes that the changes need, in the order of the changes; a replaced rule is a delete and a create. */
export function listOperations(changes: readonly Change[], profile: Profile): readonly Operation[] {
  const operations: Operation[] = [];
  for (const [change, decided] of changes.entries()) {
    if (decided.kind !== 'Rule' || decided.action === 'keep' || decided.action === 'skip') continue;
    const { action, via, reason, desired, live } = decided;
    if (action === 'update' && via !== 'replace' && desired !== null && live !== null) {
      operations.push({ type: 'update', change, live, rule: desired.rule });
      continue;
    }
    const isUnsure = reason === 'not-enforced' || (live !== null && isModifiedInPlace(live));
    const mayRebuild = profile.filter !== null && isUnsure;
    if (live !== null) operations.push({ type: 'delete', change, live, mayRebuild });
    if (desired !== null) operations.push({ type: 'create', change, rule: desired.rule });
  }
  return operations;
}

/** The rules that operations, by their places in the list, remove or add; of each operation the removed one first. */
export function listRules(operations: readonly Operation[]) {
  const changed: { readonly rule: Rule; readonly operation: number; readonly added: boolean }[] = [];
  for (let operation = 0; operation < operations.length; operation++) {
    const one = operations[operation] as Operation;
    if (one.type !== 'create') changed.push({ rule: one.live.rule, operation, added: false });
    if (one.type !== 'delete') changed.push({ rule: one.rule, operation, added: true });
  }
  return changed;
}

/** By the place of an operation in a list, or by a position in the order: others, such as those that must be done before. */
export type Links = readonly (readonly number[])[];

/** Whether the write may make the server rebuild its packet filter. */
export function mayRebuild(operation: Operation | { readonly type: 'configure' } | undefined): boolean {
  return operation?.type === 'delete' && operation.mayRebuild;
}
