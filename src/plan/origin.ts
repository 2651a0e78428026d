import { findFirstPosition, getOrMake } from '../model/group-by.ts';
import { compareText } from '../model/problem.ts';
import type { DesiredRule, LiveRule, Rule } from '../model/rule.ts';
import { compareRules, formatRuleKey, listKeys, selectRulesAt, sortByRule } from '../model/rule.ts';
import { type DesiredState, listAllRules } from '../model/state.ts';
import type { PlanInput } from './input.ts';

export type BaseRules = ReturnType<typeof indexRules>;

/** A base is asked for again and again: by each pass until another one is applied. */
const indexed = new WeakMap<DesiredState, BaseRules>();

export function indexBase(base: DesiredState | null): BaseRules | null {
  return base === null ? null : getOrMake(indexed, base, () => indexRules(base));
}

/** A state's rules are in order, so that they need no index by key. */
function indexRules({ rules }: DesiredState) {
  const byFirstName = (a: DesiredRule, b: DesiredRule): number => compareText(a.name, b.name);
  const byName = new Map(rules.map((one) => [one.name, one]));
  let sorted: readonly DesiredRule[] = [];
  return {
    byName,
    /** Most rules of a new revision are those of the one before, under the same name. */
    holds({ name, rule }: DesiredRule): boolean {
      const before = byName.get(name)?.rule;
      return (before !== undefined && compareRules(before, rule) === 0) || this.find(rule) !== undefined;
    },
    /** The one that means the same to the server: of several, the one of this name (of two policies), else of the first name. */
    find(rule: Rule, name = ''): DesiredRule | undefined {
      const own = byName.get(name);
      if (own !== undefined && compareRules(own.rule, rule) === 0) return own;
      if (sorted.length === 0) sorted = sortByRule(rules, ({ rule: of }) => of, byFirstName);
      const order = (one: DesiredRule | undefined): number => (one === undefined ? 1 : compareRules(one.rule, rule));
      const found = sorted[findFirstPosition(sorted.length, (position) => order(sorted[position]) >= 0)];
      return order(found) === 0 ? found : undefined;
    },
  };
}

/** The keys of what the base gives by now. */
export function listGiven({ base, desired }: PlanInput): ReadonlySet<string> {
  return listKeys(base === null ? [] : selectRulesAt(listAllRules(base), desired.at ?? base.at ?? 0));
}

/** What has ended by the base, by key: of several the last. What is live though an applied base has ended it was decided before. */
export function indexLapsed(input: PlanInput): ReadonlyMap<string, DesiredRule> {
  const { base, baseApplied, desired, options, scope } = input;
  // A part by time, and a way back, bring nothing back that has ended.
  if (base?.at === undefined || baseApplied || typeof options.prune !== 'string' || !scope.rules) return new Map();
  const { rules, expired = [], at = base.at } = { ...base, at: desired.at };
  const others = [...rules, ...expired].filter(({ expires = Number.POSITIVE_INFINITY }) => expires <= at);
  const given = others.length === 0 ? new Set() : listGiven(input);
  return new Map(others.map((one) => [formatRuleKey(one.rule), one] as const).filter(([key]) => !given.has(key)));
}

/** The rule of the base behind a live one that has ended by it. What was made after that end is somebody else's, or this revision's. */
export function findLapsed(lapsed: ReadonlyMap<string, DesiredRule>, { rule, insertedAt }: LiveRule) {
  const was = lapsed.size === 0 ? undefined : lapsed.get(formatRuleKey(rule));
  return was?.expires !== undefined && Date.parse(insertedAt) <= was.expires ? was : undefined;
}
