import type { Profile } from '../model/profile.ts';
import { isModifiedInPlace, type Rule } from '../model/rule.ts';
import type { Change, CreateStep, DeleteStep, RuleChange, StepPlace, UpdateStep } from './plan.ts';

/** One write to the rules, before it has a place in the order. */
export type Operation =
  | Omit<CreateStep, keyof StepPlace>
  | Omit<DeleteStep, keyof StepPlace>
  | Omit<UpdateStep, keyof StepPlace>;

/** The writes that the changes need, in the order of the changes; a replaced rule is a delete and a create. */
export function listOperations(changes: readonly Change[], profile: Profile): readonly Operation[] {
  return changes.flatMap((change, index) => (change.kind === 'Rule' ? operationsOfRule(change, index, profile) : []));
}

function operationsOfRule(decided: RuleChange, change: number, profile: Profile): readonly Operation[] {
  const { action, via, reason, desired, live } = decided;
  if (action === 'keep' || action === 'skip') return [];
  if (action === 'update' && via !== 'replace' && desired !== null && live !== null)
    return [{ type: 'update', change, live, rule: desired.rule }];
  const isUnsure = reason === 'not-enforced' || (live !== null && isModifiedInPlace(live));
  const mayRebuild = profile.filter !== null && isUnsure;
  return [
    ...(live === null ? [] : [{ type: 'delete' as const, change, live, mayRebuild }]),
    ...(desired === null ? [] : [{ type: 'create' as const, change, rule: desired.rule }]),
  ];
}

/** A rule that an operation, by its place in the list, removes or adds. */
export interface ChangedRule {
  readonly rule: Rule;
  readonly operation: number;
  readonly added: boolean;
}

/** The rules that the operations remove or add; of each operation the removed one first. */
export function listRules(operations: readonly Operation[]): readonly ChangedRule[] {
  const changed: ChangedRule[] = [];
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
