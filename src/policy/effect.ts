import { getOrMake } from '../model/group-by.ts';
import { createTouches } from '../model/intervals.ts';
import { compareRules, type Rule, sortByRule } from '../model/rule.ts';
import { compareStates } from './compare-states.ts';
import { indexRules } from './rule-index.ts';
import type { FoundEffect } from './traffic.ts';

/** Parts of traffic that a plan lists of what opens or closes, at most: each of 1,000 users may have 1,000. They take 80 MB. */
export const mostTraffic = 1_250_000;

/**
 * Exactly the traffic whose verdict differs, for devices of nobody, users named, and `others`; the order of inputs does not matter.
 * Where there are more than `most` parts of a kind, it is cut. `due`: another state before; what differs from either counts.
 */
export function computeEffect(
  before: readonly Rule[],
  after: readonly Rule[],
  others: Iterable<string> = [],
  most = Number.POSITIVE_INFINITY,
  due: readonly Rule[] | null = null,
): FoundEffect {
  const states = due === null ? [before, after] : [before, after, due];
  const inAll = 2 ** states.length - 1;
  const members = memberships(states, inAll);
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
    classify: (accepts) => (accepts === 0 || accepts === inAll ? null : accepts & 0b10 ? 'opens' : 'closes'),
  });
  const [opened, closed] = [{ parts: most }, { parts: most }];
  const effect = { opens: trafficOf('opens', opened), closes: trafficOf('closes', closed) };
  return opened.parts < 0 || closed.parts < 0 ? { ...effect, isCut: true } : effect;
}

interface Member {
  readonly rule: Rule;
  /** Bit i is set when the rule is in state i: before, after, due. */
  states: number;
}

/** Each distinct rule once. Rules that are one object in both states, as those of unchanged files are, are not compared. */
function memberships(states: readonly (readonly Rule[])[], inAll: number): readonly Member[] {
  const byObject = new Map<Rule, Member>();
  for (const [bit, rules] of states.entries()) {
    for (const rule of rules) getOrMake(byObject, rule, () => ({ rule, states: 0 })).states |= 1 << bit;
  }
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
