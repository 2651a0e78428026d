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
  // Most networks have one rule, which needs no list.
  const byText = new Map<string, LiveRule | LiveRule[]>();
  for (const one of live) {
    const { text } = one.rule.destination;
    const near = byText.get(text);
    if (Array.isArray(near)) near.push(one);
    else byText.set(text, near === undefined ? one : [near, one]);
  }
  const byKey = new Map<string, LiveRule[]>();
  for (const [text, rules] of byText) {
    if (!Array.isArray(rules) || rules.length <= manyRules) continue;
    for (const [key, copies] of groupBy(rules, ({ rule }) => formatRuleKey(rule))) byKey.set(key, copies as LiveRule[]);
    byText.set(text, []);
  }
  return {
    take(rule) {
      const { text } = rule.destination;
      const near = byText.get(text);
      if (near === undefined) return null;
      if (Array.isArray(near)) {
        return (
          takeFirst(near, rule) ?? (byKey.size === 0 ? null : takeFirst(byKey.get(formatRuleKey(rule)) ?? [], rule))
        );
      }
      if (compareRules(near.rule, rule) !== 0) return null;
      byText.delete(text);
      return near;
    },
    left: () => sortByRule([...byText.values(), ...byKey.values()].flat(), ({ rule }) => rule, compareCopies),
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
