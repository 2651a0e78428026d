import { keepFirst } from '../../model/group-by.ts';
import type { Problem } from '../../model/problem.ts';
import type { DesiredRule } from '../../model/rule.ts';
import { type Finding, type Linted, toProblems } from './finding.ts';

/** Users by id who have no name though others have: one finding for each, at the first rule. */
export function lintUsers({ rules, desired }: Linted): readonly Finding[] {
  if (desired.userNames.size === 0) return [];
  return firstPlaces(rules, desired.userNames).map(({ user, place }): Finding => {
    const summary = `User ${user} has a rule and no name, though other users have one.`;
    const hint = 'Add the user to a `kind: Users` manifest and write the name.';
    return { code: 'unlisted-user', place, summary, hint };
  });
}

/** Rules for users whom the server does not have: it would refuse them. Asked only when the server's users are known. */
export function findUnknownUsers(rules: readonly DesiredRule[], serverUsers: ReadonlySet<string>): readonly Problem[] {
  const findings = firstPlaces(rules, serverUsers).map(({ user, place }): Finding => {
    const summary = `The server has no user ${user}; it refuses rules for unknown users.`;
    return { code: 'unknown-user-id', place, summary, hint: 'Correct the id, or create the user first.' };
  });
  return toProblems(findings);
}

/** The users who have a rule of their own and are not among these, each with the place of the first rule. */
function firstPlaces(rules: readonly DesiredRule[], known: Pick<ReadonlySet<string>, 'has'>) {
  const places = rules.flatMap(({ rule, place }) => (rule.userId === null ? [] : [{ user: rule.userId, place }]));
  return keepFirst(places, ({ user }) => user).filter(({ user }) => !known.has(user));
}
