import { keepFirst } from '../../model/group-by.ts';
import type { Problem } from '../../model/problem.ts';
import type { DesiredRule } from '../../model/rule.ts';
import { type Finding, type Linted, toProblems } from './finding.ts';

/** Users by id who have no name though others have: one finding for each, at the first rule. */
export function lintUsers({ rules, desired }: Linted): readonly Finding[] {
  if (desired.userNames.size === 0) return [];
  return firstPlaces(rules).flatMap(({ user, place }): Finding[] => {
    if (desired.userNames.has(user)) return [];
    const summary = `User ${user} has a rule and no name, though other users have one.`;
    const hint = 'Add the user to a `kind: Users` manifest and write the name.';
    return [{ code: 'unlisted-user', place, summary, hint }];
  });
}

/** Rules for users whom the server does not have: it would refuse them. Asked only when the server's users are known. */
export function findUnknownUsers(rules: readonly DesiredRule[], serverUsers: ReadonlySet<string>): readonly Problem[] {
  const findings = firstPlaces(rules).flatMap(({ user, place }): Finding[] => {
    if (serverUsers.has(user)) return [];
    const summary = `The server has no user ${user}; it refuses rules for unknown users.`;
    return [{ code: 'unknown-user-id', place, summary, hint: 'Correct the id, or create the user first.' }];
  });
  return toProblems(findings);
}

/** The users who have a rule of their own, each with the place of the first. */
function firstPlaces(rules: readonly DesiredRule[]) {
  const places = rules.flatMap(({ rule, place }) => (rule.userId === null ? [] : [{ user: rule.userId, place }]));
  return keepFirst(places, ({ user }) => user);
}
