import { getOrMake } from '../model/group-by.ts';
import { formatRuleKey, type Rule } from '../model/rule.ts';
import { classifyByVerdict, compareStates } from './compare-states.ts';
import { renderTraffic } from './render-traffic.ts';
import { indexRules } from './rule-index.ts';
import type { Effect } from './traffic.ts';

/** Exactly the traffic whose verdict differs, for devices of nobody and of every user named; the order of inputs does not matter. */
export function computeEffect(before: readonly Rule[], after: readonly Rule[]): Effect {
  return computeOwnEffect([before], after);
}

/** The traffic whose verdict afterwards is that of none of the sets before: what a merge changes by itself. */
export function computeOwnEffect(before: readonly (readonly Rule[])[], after: readonly Rule[]): Effect {
  const states = [...before.slice(0, mostStates), after];
  const inAll = 2 ** states.length - 1;
  const onlyAfter = 1 << (states.length - 1);
  const items = memberships(states);
  const [opens, closes] = compareStates({
    index: indexRules(items),
    states: states.length,
    statesOf: (item) => item.states,
    within: items.filter((item) => item.states !== inAll),
    classes: 2,
    classify: classifyByVerdict((accepts) => (accepts === onlyAfter ? 0b01 : accepts === inAll - onlyAfter ? 0b10 : 0)),
  });
  return { opens: renderTraffic(opens ?? new Map()), closes: renderTraffic(closes ?? new Map()) };
}

/** A merge of more branches is compared with the first of them. */
const mostStates = 20;

function memberships(states: readonly (readonly Rule[])[]): { readonly rule: Rule; states: number }[] {
  const items = new Map<string, { readonly rule: Rule; states: number }>();
  for (const [bit, rules] of states.entries()) {
    for (const rule of rules) {
      getOrMake(items, formatRuleKey(rule), () => ({ rule, states: 0 })).states |= 1 << bit;
    }
  }
  return [...items.values()];
}
