import { getOrMake } from '../model/group-by.ts';
import { createTouches } from '../model/intervals.ts';
import { compareRules, type Rule, sortByRule } from '../model/rule.ts';
import { compareStates } from './compare-states.ts';
import { indexRules } from './rule-index.ts';
import type { Effect } from './traffic.ts';

/** Exactly the traffic whose verdict differs, for devices of nobody and of every user named; the order of inputs does not matter. */
export function computeEffect(before: readonly Rule[], after: readonly Rule[]): Effect {
  return computeOwnEffect([before], after);
}

/** The traffic whose verdict afterwards is that of none of the sets before: what a merge changes by itself. `others` are told apart too. */
export function computeOwnEffect(
  before: readonly (readonly Rule[])[],
  after: readonly Rule[],
  others: readonly string[] = [],
): Effect {
  const states = [...before.slice(0, mostStates), after];
  const inAll = 2 ** states.length - 1;
  const onlyAfter = 1 << (states.length - 1);
  const members = memberships(states);
  const within = members.filter((item) => item.states !== inAll);
  if (within.length === 0) return { opens: [], closes: [] };
  const touches = createTouches(within.map(({ rule }) => rule.destination));
  // No other rule matters to what those that differ change.
  const near = members.filter((item) => item.states !== inAll || touches(item.rule.destination));
  const users = new Set([...others, ...members.flatMap(({ rule }) => rule.userId ?? [])]);
  const trafficOf = compareStates({
    index: { ...indexRules(near), users: [...users].sort() },
    states: states.length,
    statesOf: (item) => item.states,
    within,
    classify: (accepts) => (accepts === onlyAfter ? 'opens' : accepts === inAll - onlyAfter ? 'closes' : null),
  });
  return { opens: trafficOf('opens'), closes: trafficOf('closes') };
}

/** A merge of more branches is compared with the first of them. */
const mostStates = 20;

interface Member {
  readonly rule: Rule;
  /** Bit i is set when the rule is in state i. */
  states: number;
}

/** Each distinct rule once. Rules that are one object in every state, as those of unchanged files are, are not compared. */
function memberships(states: readonly (readonly Rule[])[]): readonly Member[] {
  const byObject = new Map<Rule, Member>();
  for (const [bit, rules] of states.entries()) {
    for (const rule of rules) getOrMake(byObject, rule, () => ({ rule, states: 0 })).states |= 1 << bit;
  }
  const inAll = 2 ** states.length - 1;
  const all = [...byObject.values()];
  const members = all.filter((one) => one.states === inAll);
  const others = all.filter((one) => one.states !== inAll);
  const compare = (a: Member, b: Member): number => compareRules(a.rule, b.rule);
  for (const one of sortByRule(others, ({ rule }) => rule, compare)) {
    const last = members.at(-1);
    if (last !== undefined && compare(last, one) === 0) last.states |= one.states;
    else members.push(one);
  }
  return members;
}
