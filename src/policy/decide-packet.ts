import type { Action } from '../model/rule.ts';
import { findNodesReached, type Ruled, type RuleIndex } from './rule-index.ts';
import { compareDeciding, defaultVerdict, matches, type Packet, type Portless } from './verdict.ts';

export interface Decision<T extends Ruled> {
  readonly verdict: Action;
  /** The rule that decides; null when none matches and the default applies. */
  readonly rule: T | null;
  /** The other rules that match, in the order in which they would decide. */
  readonly overridden: readonly T[];
}

/** The verdict on a packet: O(log n) plus the rules that hold its address. Of one rank the first in canonical order decides. */
export function decide<T extends Ruled>(index: RuleIndex<T>, packet: Packet): Decision<T> {
  return decideAmong(findRules(index, packet), packet);
}

/** The verdict of these rules, which need no index. */
export function decideAmong<T extends Ruled>(rules: readonly T[], packet: Packet): Decision<T> {
  const [rule, ...overridden] = rules
    .filter((one) => matches(one.rule, packet))
    .sort((a, b) => compareDeciding(a.rule, b.rule));
  if (rule === undefined) return { verdict: defaultVerdict, rule: null, overridden: [] };
  return { verdict: rule.rule.action, rule, overridden };
}

/** The rules that reach the address from the source, whatever the port. */
export function findRules<T extends Ruled>(index: RuleIndex<T>, source: Portless): readonly T[] {
  return findNodesReached(index, source).flatMap(({ items }) => items);
}
