import type { Profile } from '../../model/profile.ts';
import { listOperations } from '../operations.ts';
import type { RuleChange } from '../plan.ts';
import { findUpdatesToReplace } from './cycles.ts';
import { relate } from './sharing.ts';

/**
 * Where rules are updated in place on a server that refuses collisions, updates can wait for each other in a circle (two rules
 * that swap). The fewest of them are made replacements; all other changes stay as they are.
 */
export function breakCircles(changes: readonly RuleChange[], profile: Profile): readonly RuleChange[] {
  if (!profile.refusesCollisions || !changes.some(({ via }) => via === 'patch')) return changes;
  const operations = listOperations(changes, profile);
  const replaced = findUpdatesToReplace(operations, relate(operations, true));
  if (replaced.size === 0) return changes;
  const indices = new Set([...replaced].map((operation) => operations[operation]?.change));
  return changes.map((change, index) => (indices.has(index) ? { ...change, via: 'replace' } : change));
}
