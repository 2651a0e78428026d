import type { Change } from '../plan.ts';

/** Every user whom a rule names before the plan or after it: those whom its effect and exposure tell apart from nobody. */
export function collectNamedUsers(changes: readonly Change[]): ReadonlySet<string> {
  const users = new Set<string>();
  for (const change of changes) {
    if (change.kind !== 'Rule') continue;
    for (const item of [change.live, change.action === 'skip' ? null : change.desired]) {
      if (item !== null && item.rule.userId !== null) users.add(item.rule.userId);
    }
  }
  return users;
}
