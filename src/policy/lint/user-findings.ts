import type { DesiredRule } from '../../model/rule.ts';
import type { Finding } from './finding.ts';
import type { Linted } from './linted.ts';

/** Users by id that nothing else knows: one finding for each, at the first rule that names it. */
export function userFindings({ rules, index, desired, serverUsers }: Linted): readonly Finding[] {
  const first = new Map<string, DesiredRule>();
  for (const rule of rules) {
    const { userId } = rule.rule;
    if (userId !== null && !first.has(userId)) first.set(userId, rule);
  }
  return index.users.flatMap((user): Finding[] => {
    const place = first.get(user)?.place;
    if (place === undefined) return [];
    if (serverUsers !== null && !serverUsers.has(user)) {
      const summary = `The server has no user ${user}; it refuses rules for unknown users.`;
      return [{ code: 'unknown-user-id', place, summary, hint: 'Correct the id, or create the user first.' }];
    }
    if (desired.userNames.size === 0 || desired.userNames.has(user)) return [];
    const summary = `User ${user} has a rule and no name, though other users have one.`;
    return [
      { code: 'unlisted-user', place, summary, hint: 'Add the user to a `kind: Users` manifest and write the name.' },
    ];
  });
}
