import { groupBy } from '../../model/group-by.ts';
import { compareText } from '../../model/problem.ts';
import {
  compareRules,
  formatRuleKey,
  isModifiedInPlace,
  type LiveRule,
  type Rule,
  sortByRule,
} from '../../model/rule.ts';

/** Live rules that are not paired yet, to be taken by canonical form. */
export interface Copies {
  /** Takes the first copy of the rule, in the order in which copies are kept; null when none is left. */
  take(rule: Rule): LiveRule | null;
  /** What was not taken, in canonical order. */
  left(): readonly LiveRule[];
}

/** Networks that more rules than this name get an index of their own. */
const manyRules = 16;

/** Finds live rules by their destination's text, and then by the rest: several times faster than by keys of whole rules. */
export function findCopies(live: readonly LiveRule[]): Copies {
  const byText = groupBy(live, ({ rule }) => rule.destination.text) as ReadonlyMap<string, LiveRule[]>;
  const byKey = new Map<string, LiveRule[]>();
  for (const [text, rules] of byText) {
    if (rules.length <= manyRules) continue;
    for (const [key, copies] of groupBy(rules, ({ rule }) => formatRuleKey(rule))) byKey.set(key, copies as LiveRule[]);
    byText.get(text)?.splice(0);
  }
  return {
    take(rule) {
      const near = byText.get(rule.destination.text);
      if (near === undefined) return null;
      return takeFirst(near, rule) ?? (byKey.size === 0 ? null : takeFirst(byKey.get(formatRuleKey(rule)) ?? [], rule));
    },
    left: () =>
      sortByRule(
        [...byText.values(), ...byKey.values()].filter(({ length }) => length > 0).flat(),
        ({ rule }) => rule,
        compareCopies,
      ),
  };
}

function takeFirst(rules: LiveRule[], rule: Rule): LiveRule | null {
  let first = -1;
  for (let i = 0; i < rules.length; i++) {
    const candidate = rules[i] as LiveRule;
    if (compareRules(candidate.rule, rule) !== 0) continue;
    if (first < 0 || compareCopies(candidate, rules[first] as LiveRule) < 0) first = i;
  }
  const taken = rules[first] ?? null;
  if (taken !== null) {
    rules[first] = rules.at(-1) as LiveRule;
    rules.pop();
  }
  return taken;
}

/** Of copies, those whose filter entry is sure come first, then by spelling, then by id. */
function compareCopies(a: LiveRule, b: LiveRule): number {
  return (
    Number(isModifiedInPlace(a)) - Number(isModifiedInPlace(b)) ||
    compareText(a.destinationText, b.destinationText) ||
    compareText(a.id, b.id)
  );
}
