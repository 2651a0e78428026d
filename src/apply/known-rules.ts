import { formatRuleKey, isModifiedInPlace, type LiveRule } from '../model/rule.ts';
import type { Plan } from '../plan/plan.ts';

/**
 * Which live rules this apply knows of, by id: those of the plan and those it created. A rule in a fresh list that is not
 * known and equals one whose answer was lost is the one that landed; each is claimed once.
 */
export interface KnownRules {
  /** Learns the live rules of another plan. */
  learn(plan: Plan): void;
  created(id: string): void;
  deleted(id: string): void;
  /** A listed rule with that key that nobody claimed yet, which then counts as created; null when there is none. */
  claim(key: string, listed: readonly LiveRule[]): LiveRule | null;
  /** Whether rules of that user are live, so that the user exists. */
  hasUser(userId: string): boolean;
  /** Number of live rules, as far as known. */
  count(): number;
  /** Whether a rule was live that had been modified in place: the filter may hold what no rule says. */
  anyModified(): boolean;
}

/** Knows nothing at first. */
export function createKnownRules(): KnownRules {
  const ids = new Set<string>();
  const users = new Set<string>();
  let modified = false;
  return {
    learn: (plan) => {
      ids.clear();
      for (const change of plan.changes) {
        if (change.kind !== 'Rule' || change.live === null) continue;
        ids.add(change.live.id);
        modified ||= isModifiedInPlace(change.live);
        if (change.live.rule.userId !== null) users.add(change.live.rule.userId);
      }
    },
    created: (id) => {
      ids.add(id);
    },
    deleted: (id) => {
      ids.delete(id);
    },
    claim: (key, listed) => {
      const found = listed.find((live) => !ids.has(live.id) && formatRuleKey(live.rule) === key) ?? null;
      if (found !== null) ids.add(found.id);
      return found;
    },
    hasUser: (userId) => users.has(userId),
    count: () => ids.size,
    anyModified: () => modified,
  };
}
