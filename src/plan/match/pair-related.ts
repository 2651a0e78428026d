import { intersects, type Network } from '../../model/address.ts';
import { groupBy } from '../../model/group-by.ts';
import type { DesiredRule, LiveRule, Rule } from '../../model/rule.ts';
import { changedFields } from '../fields.ts';
import { eachLevel, type Level } from '../nesting.ts';
import { groupsOf, type UnionFind, unionFind } from '../union-find.ts';
import { assign } from './assignment.ts';
import { pairGreedily } from './pair-greedily.ts';

export interface RelatedPair {
  readonly desired: DesiredRule;
  readonly live: LiveRule;
}

/** Whether one may be taken for an edit of the other: same user, and destinations that share an address. */
function related(a: Rule, b: Rule): boolean {
  return a.userId === b.userId && intersects(a.destination, b.destination);
}

/** Groups for which the assignment, which is cubic, would look at more pairs than this are paired greedily: some seconds. */
const assignmentLimit = 2_000 ** 3;

function isAssignable({ desired, live }: Group): boolean {
  const [smaller, larger] = [Math.min(desired.length, live.length), Math.max(desired.length, live.length)];
  return smaller * smaller * larger <= assignmentLimit;
}

/**
 * Pairs what is left by least total cost, only related rules: as many pairs as there can be (each saves a call, or a line of
 * the plan), then the fewest changed fields, then the least distance in canonical order. Both lists are in canonical order.
 */
export function pairRelated(desired: readonly DesiredRule[], live: readonly LiveRule[]): readonly RelatedPair[] {
  const pairs: RelatedPair[] = [];
  for (const group of relatedGroups(desired, live)) {
    const pairsOf = isAssignable(group) ? pairByAssignment : pairGreedily;
    for (const pair of pairsOf(group.desired, group.live)) pairs.push(pair);
  }
  return pairs;
}

interface Group {
  readonly desired: readonly DesiredRule[];
  readonly live: readonly LiveRule[];
}

/** Connected components of the relation between the two sides, those with members on both. */
function relatedGroups(desired: readonly DesiredRule[], live: readonly LiveRule[]): readonly Group[] {
  const rules = [...desired.map(({ rule }) => rule), ...live.map(({ rule }) => rule)];
  const sets = unionFind(rules.length);
  const isDesired = (index: number): boolean => index < desired.length;
  const byUser = groupBy(rules.keys(), (index) => (rules[index] as Rule).userId);
  for (const indices of byUser.values()) {
    uniteRelated(indices, { network: (index) => (rules[index] as Rule).destination, isDesired, sets });
  }
  return groupsOf(sets, rules.length)
    .map((group) => ({
      desired: group.filter(isDesired).map((index) => desired[index] as DesiredRule),
      live: group.filter((index) => index >= desired.length).map((index) => live[index - desired.length] as LiveRule),
    }))
    .filter((group) => group.desired.length > 0 && group.live.length > 0);
}

interface Uniting {
  readonly network: (index: number) => Network;
  readonly isDesired: (index: number) => boolean;
  readonly sets: UnionFind;
}

/** The rules of one network that are in different sets as far as is known, by side. */
interface Sides {
  desired: readonly number[];
  live: readonly number[];
}

/**
 * Unites each rule with those of the other side whose network encloses its own. Rules of a network that are in one set are looked at as
 * one from then on.
 */
function uniteRelated(indices: readonly number[], { network, isDesired, sets }: Uniting): void {
  const sidesOf = new Map<Level<number>, Sides>();
  eachLevel(indices, network, (level, enclosing) => {
    const own = {
      desired: level.items.filter(isDesired),
      live: level.items.filter((index) => !isDesired(index)),
    };
    sidesOf.set(level, own);
    for (const other of [own, ...enclosing.map((outer) => sidesOf.get(outer) as Sides)]) {
      unite(own, 'desired', other, 'live');
      unite(own, 'live', other, 'desired');
    }
  });

  function unite(a: Sides, sideOfA: keyof Sides, b: Sides, sideOfB: keyof Sides): void {
    const [first] = a[sideOfA];
    if (first === undefined || b[sideOfB].length === 0) return;
    for (const index of a[sideOfA]) sets.union(first, index);
    for (const index of b[sideOfB]) sets.union(first, index);
    a[sideOfA] = a[sideOfA].slice(0, 1);
    b[sideOfB] = b[sideOfB].slice(0, 1);
  }
}

function pairByAssignment(desired: readonly DesiredRule[], live: readonly LiveRule[]): readonly RelatedPair[] {
  if (desired.length === 1 && live.length === 1) {
    return [{ desired: desired[0] as DesiredRule, live: live[0] as LiveRule }];
  }
  const costs = pairCosts(desired, live);
  const columns = assign({ rows: desired.length, columns: live.length, costs });
  return desired.flatMap((rule, row) => {
    const column = columns[row] as number;
    return column < 0 ? [] : [{ desired: rule, live: live[column] as LiveRule }];
  });
}

/** Costs of pairing, row by row: changed fields first, distance in canonical order second; unrelated rules never pair. */
function pairCosts(desired: readonly DesiredRule[], live: readonly LiveRule[]): Float64Array {
  const longer = Math.max(desired.length, live.length);
  const fieldWeight = longer * Math.min(desired.length, live.length) + 1;
  const costs = new Float64Array(desired.length * live.length).fill(Number.POSITIVE_INFINITY);
  for (const [row, { rule }] of desired.entries()) {
    for (const [column, { rule: other }] of live.entries()) {
      if (!related(rule, other)) continue;
      costs[row * live.length + column] = changedFields(other, rule) * fieldWeight + Math.abs(row - column);
    }
  }
  return costs;
}
