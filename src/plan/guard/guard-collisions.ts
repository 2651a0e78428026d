import { groupBy } from '../../model/group-by.ts';
import { createTouches } from '../../model/intervals.ts';
import { collides, formatRuleKey, type Rule } from '../../model/rule.ts';
import type { PlanInput } from '../input.ts';
import { eachMeeting } from '../meeting.ts';
import { type Change, getChangedRule, type Refusal, type RuleChange } from '../plan.ts';

/**
 * One refusal for each pair that the server refuses in any order: a desired rule and a live one that stays, or two desired rules, which
 * manifests are not checked for under a profile that accepts collisions.
 */
export function refuseCollisions(input: PlanInput, changes: readonly Change[]): readonly Refusal[] {
  if (!input.profile.refusesCollisions) return [];
  const arriving = changes.filter((change): change is RuleChange => change.kind === 'Rule' && isArriving(change));
  const touches = createTouches(arriving.map((change) => getChangedRule(change).destination));
  const staying = changes.filter(
    (change): change is RuleChange =>
      change.kind === 'Rule' &&
      change.action !== 'delete' &&
      (change.action !== 'skip' || change.live !== null) &&
      (isArriving(change) || touches(getChangedRule(change).destination)),
  );
  const at = (position: number): RuleChange => staying[position] as RuleChange;
  const ruleAt = (position: number): Rule => getChangedRule(at(position));
  const arrives = (position: number): boolean => isArriving(at(position));
  const pairs: (readonly [number, number])[] = [];
  for (const group of groupBy(staying.keys(), (position) => collisionClass(ruleAt(position))).values()) {
    if (!group.some(arrives)) continue;
    const collect = (a: number, b: number): void => {
      if (collides(ruleAt(a), ruleAt(b))) pairs.push(arrives(a) && (a < b || !arrives(b)) ? [a, b] : [b, a]);
    };
    eachMeeting(group, ruleAt, collect, arrives);
  }
  return pairs.sort(([a, b], [c, d]) => a - c || b - d).map(([mine, other]) => refuse(at(mine), at(other)));
}

function isArriving({ action }: RuleChange): boolean {
  return action === 'create' || action === 'update';
}

function refuse({ desired, source }: RuleChange, other: RuleChange): Refusal {
  if (desired === null) throw new Error('a created or updated rule is desired');
  const mine = `Rule \`${desired.name}\` (${formatRuleKey(desired.rule)})`;
  const here = source === null ? [] : [{ place: source, note: `\`${desired.name}\` is written here` }];
  if (other.desired !== null) {
    const theirs = `rule \`${other.desired.name}\` (${formatRuleKey(other.desired.rule)})`;
    const summary = `${mine} collides with ${theirs}: the server holds only one of them.`;
    const hint = 'Keep the wider rule and remove the other, or make their destinations or ports disjoint.';
    const there = { place: other.desired.place, note: `\`${other.desired.name}\` is written here` };
    return { code: 'desired-rules-collide', summary, hint, related: [...here, there] };
  }
  const live =
    other.live === null ? 'a live rule' : `the live rule ${other.live.id} (${formatRuleKey(other.live.rule)})`;
  if (other.reason === 'out-of-scope') {
    const summary = `${mine} collides with ${live}, which is outside the scope of this run.`;
    const hint = 'Change the rule, widen the scope, or have the owner of the live rule remove it.';
    return { code: 'collides-out-of-scope', summary, hint, related: here };
  }
  const summary = `${mine} collides with ${live}, which is not deleted without pruning.`;
  const hint = 'Add the live rule to the manifests, remove it by hand, or run with `--prune all`.';
  return { code: 'collides-with-kept', summary, hint, related: here };
}

/** Rules of different classes never collide: same action, user scope and port presence; with ports, same type. */
function collisionClass(rule: Rule): string {
  return `${rule.action} ${rule.ports?.type ?? 'any'} ${rule.userId ?? '*'}`;
}
