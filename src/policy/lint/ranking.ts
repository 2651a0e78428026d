import { compareRules } from '../../model/rule.ts';
import type { Ruled, RuleIndex } from '../rule-index.ts';
import { getRank } from '../verdict.ts';

/** Every rule of an index in the order in which they would decide; a rule's key is its position there. */
export interface Ranking<T extends Ruled> {
  readonly items: readonly T[];
  readonly keys: ReadonlyMap<T, number>;
}

/** Ranks the rules. Copies of one rule keep the index's order. */
export function rankRules<T extends Ruled>(index: RuleIndex<T>): Ranking<T> {
  const every = new Set([...index.scopes.values()].flatMap((scope) => scope.flatMap(({ items }) => items)));
  const items = [...every].sort((a, b) => getRank(a.rule) - getRank(b.rule) || compareRules(a.rule, b.rule));
  return { items, keys: new Map(items.map((item, key) => [item, key])) };
}
