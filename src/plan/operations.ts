import type { Profile } from '../model/profile.ts';
import { isModifiedInPlace } from '../model/rule.ts';
import type { Change, RuleStep, StepPlace } from './plan.ts';

/** One write to the rules, before it has a place in the order. */
export type Operation = WithoutPlace<RuleStep>;

type WithoutPlace<S> = S extends RuleStep ? Omit<S, keyof StepPlace> : never;

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
  return operations.flatMap((one, operation) => [
    ...(one.type === 'create' ? [] : [{ rule: one.live.rule, operation, added: false }]),
    ...(one.type === 'delete' ? [] : [{ rule: one.rule, operation, added: true }]),
  ]);
}

/** By the place of an operation in a list, or by a position in the order: others, such as those that must be done before. */
export type Links = readonly (readonly number[])[];

/** Whether the write may make the server rebuild its packet filter. */
export function mayRebuild(operation: Operation | { readonly type: 'configure' } | undefined): boolean {
  return operation?.type === 'delete' && operation.mayRebuild;
}
