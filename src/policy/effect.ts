import { getOrMake } from '../model/group-by.ts';
import { formatRuleKey, type Rule } from '../model/rule.ts';
import { classifyByVerdict, compareStates } from './compare-states.ts';
import { renderTraffic } from './render-traffic.ts';
import { indexRules } from './rule-index.ts';
import type { Effect } from './traffic.ts';

/** Exactly the traffic whose verdict differs, for devices of nobody and of every user named; the order of inputs does not matter. */
export function computeEffect(before: readonly Rule[], after: readonly Rule[]): Effect {
  const items = memberships(before, after);
  const [opens, closes] = compareStates({
    index: indexRules(items),
    states: 2,
    statesOf: (item) => item.states,
    within: items.filter((item) => item.states !== inBoth),
    classes: 2,
    classify: classifyByVerdict((accepts) =>
      accepts === acceptedAfter ? 0b01 : accepts === acceptedBefore ? 0b10 : 0,
    ),
  });
  return { opens: renderTraffic(opens ?? new Map()), closes: renderTraffic(closes ?? new Map()) };
}

const acceptedBefore = 0b01;
const acceptedAfter = 0b10;
const inBoth = 0b11;

function memberships(before: readonly Rule[], after: readonly Rule[]): { readonly rule: Rule; states: number }[] {
  const items = new Map<string, { readonly rule: Rule; states: number }>();
  for (const [bit, rules] of [before, after].entries()) {
    for (const rule of rules) {
      getOrMake(items, formatRuleKey(rule), () => ({ rule, states: 0 })).states |= 1 << bit;
    }
  }
  return [...items.values()];
}
