import { intersects } from '../model/address.ts';
import { compareText } from '../model/problem.ts';
import { formatRuleKey, isModifiedInPlace, type LiveRule, type Rule } from '../model/rule.ts';
import type { Difference, SurplusElement } from './compare.ts';
import { toRules } from './elements.ts';

/** A surplus element, as rules, and the live rule whose change in place probably left it behind; null when none did. */
export interface Leftover {
  readonly rules: readonly Rule[];
  readonly leftBy: LiveRule | null;
}

/**
 * Attributes surplus elements to live rules that were changed in place and do not stand in the kernel as they are: one
 * element to one rule, the most alike first (same set, then same user, action and intersecting destination). Which of
 * several rules left which element cannot be known; any pairing says the same about the traffic.
 */
export function attributeSurplus(rules: readonly LiveRule[], difference: Difference): readonly Leftover[] {
  const free = new Set(rules.filter((live) => isModifiedInPlace(live) && !difference.exact.has(live)));
  const leftovers = difference.surplus
    .map((surplus) => ({ rules: rulesOfSurplus(surplus), leftBy: null as LiveRule | null }))
    .sort((a, b) => compareText(textOf(a.rules), textOf(b.rules)));
  for (const least of [5, 4, 3, 2, 1, 0]) {
    for (const [index, leftover] of leftovers.entries()) {
      if (leftover.leftBy !== null || free.size === 0) continue;
      const found = [...free].find((live) => likeness(live.rule, leftover.rules[0]) >= least);
      if (found === undefined) continue;
      free.delete(found);
      leftovers[index] = { ...leftover, leftBy: found };
    }
  }
  return leftovers;
}

function rulesOfSurplus({ kind, parts }: SurplusElement): readonly Rule[] {
  return parts.flatMap((part) => toRules(part, kind));
}

function textOf(rules: readonly Rule[]): string {
  return rules.map(formatRuleKey).join(', ');
}

function likeness(a: Rule, b: Rule | undefined): number {
  if (b === undefined) return 0;
  const scope = a.userId === b.userId ? 2 : 0;
  const action = a.action === b.action ? 1 : 0;
  const near = intersects(a.destination, b.destination) ? 2 : 0;
  return scope + action + near;
}
