import type { CreateStep, Plan, Step } from '../plan/plan.ts';
import { readUsers } from './read.ts';
import type { Session } from './session.ts';

/**
 * What can be foreseen before a gap is opened: a create that names a user the server does not know would fail after the
 * delete. Users of live rules exist; the others are asked for once. Invalid values were refused long before this.
 */
export async function foreseeFailures(
  plan: Plan,
  groups: ReadonlyMap<string, string>,
  session: Session,
): Promise<ReadonlyMap<Step, string>> {
  const failures = new Map<Step, string>();
  const { context, known } = session;
  const unsure = plan.steps.filter(
    (step): step is CreateStep =>
      step.type === 'create' && groups.has(step.id) && step.rule.userId !== null && !known.hasUser(step.rule.userId),
  );
  if (unsure.length === 0 || !context.profile.listsUsers || session.stopped() !== null) return failures;
  const users = await readUsers({ ...session.reading, signal: session.soft });
  if (!users.ok) {
    context.logger.warn('users could not be read; a gap may meet an unknown user', { reason: users.error.message });
    return failures;
  }
  const ids = new Set(users.value.map(({ id }) => id));
  for (const step of unsure) {
    const { userId } = step.rule;
    if (userId === null || ids.has(userId)) continue;
    failures.set(step, `not sent: the server knows no user ${userId}, and a rule would have been deleted for it`);
  }
  return failures;
}
