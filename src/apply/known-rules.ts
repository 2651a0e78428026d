import { formatRuleKey, isModifiedInPlace, type LiveRule } from '../model/rule.ts';
import type { Plan } from '../plan/plan.ts';

/** The live rules that this apply knows, by id: of the plan, and created. An unknown equal of a create without an answer is it, once. */
export function createKnownRules() {
  const ids = new Set<string>();
  const users = new Set<string>();
  let modified = false;
  return {
    /** Learns the live rules of another plan. */
    learn(plan: Plan): void {
      ids.clear();
      for (const change of plan.changes) {
        if (change.kind !== 'Rule' || change.live === null) continue;
        ids.add(change.live.id);
        modified ||= isModifiedInPlace(change.live);
        if (change.live.rule.userId !== null) users.add(change.live.rule.userId);
      }
    },
    created: (id: string): void => void ids.add(id),
    deleted: (id: string): void => void ids.delete(id),
    /** A listed rule with that key that nobody claimed yet, which then counts as created; null when there is none. */
    claim(key: string, listed: readonly LiveRule[]): LiveRule | null {
      const found = listed.find((live) => !ids.has(live.id) && formatRuleKey(live.rule) === key) ?? null;
      if (found !== null) ids.add(found.id);
      return found;
    },
    /** Whether rules of that user are live, so that the user exists. */
    hasUser: (userId: string): boolean => users.has(userId),
    /** Number of live rules, as far as known. */
    count: (): number => ids.size,
    /** Whether a rule was live that had been modified in place: the filter may hold what no rule says. */
    anyModified: (): boolean => modified,
  };
}
