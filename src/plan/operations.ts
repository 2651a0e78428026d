import type { Profile } from '../model/profile.ts';
import { isModifiedInPlace, type LiveRule, type Rule } from '../model/rule.ts';
import type { Change, RuleChange } from './plan.ts';

/** One write to the rules, before it has a place in the order. */
export interface Operation {
  readonly type: 'create' | 'delete' | 'update';
  /** Index into the plan's changes. */
  readonly change: number;
  readonly live: LiveRule | null;
  /** The rule that is no longer there afterwards; null for a create. */
  readonly removed: Rule | null;
  /** The rule that is there afterwards; null for a delete. */
  readonly added: Rule | null;
  /** Removing it may make the server rebuild its packet filter. */
  readonly mayRebuild: boolean;
}

/** The writes that the changes need, in the order of the changes; a replaced rule is a delete and a create. */
export function listOperations(changes: readonly Change[], profile: Profile): readonly Operation[] {
  return changes.flatMap((change, index) => (change.kind === 'Rule' ? operationsOfRule(change, index, profile) : []));
}

function operationsOfRule(change: RuleChange, index: number, profile: Profile): readonly Operation[] {
  const { desired, live } = change;
  switch (change.action) {
    case 'create':
      return desired === null ? [] : [createOf(desired.rule, index)];
    case 'delete':
      return live === null ? [] : [deleteOf(live, index, profile)];
    case 'update':
      if (desired === null || live === null) return [];
      if (change.reason === 'not-enforced') {
        const deleted = { ...deleteOf(live, index, profile), mayRebuild: profile.filter !== null };
        return [deleted, createOf(desired.rule, index)];
      }
      if (change.via === 'replace') return [deleteOf(live, index, profile), createOf(desired.rule, index)];
      return [{ type: 'update', change: index, live, removed: live.rule, added: desired.rule, mayRebuild: false }];
    case 'keep':
    case 'skip':
      return [];
  }
}

function createOf(rule: Rule, change: number): Operation {
  return { type: 'create', change, live: null, removed: null, added: rule, mayRebuild: false };
}

function deleteOf(live: LiveRule, change: number, profile: Profile): Operation {
  const mayRebuild = profile.filter !== null && isModifiedInPlace(live);
  return { type: 'delete', change, live, removed: live.rule, added: null, mayRebuild };
}
