import { groupBy } from '../../model/group-by.ts';
import { collides, formatRuleKey, type LiveRule, type Rule } from '../../model/rule.ts';
import type { PlanInput } from '../input.ts';
import { eachMeeting } from '../meeting.ts';
import type { Change, Refusal, RuleChange } from '../plan.ts';

/**
 * Desired rules that the server would refuse whatever the order: they collide with a live rule which this run may not
 * delete, or with another desired rule (manifests are checked for that, but not under a profile that accepts collisions).
 * Each pair is one refusal that names both.
 */
export function refuseCollisions(input: PlanInput, changes: readonly Change[]): readonly Refusal[] {
  if (!input.profile.refusesCollisions) return [];
  const rules = changes.filter((change): change is RuleChange => change.kind === 'Rule');
  const arriving = rules.filter(({ action }) => action === 'create' || action === 'update');
  if (arriving.length === 0) return [];
  const staying = rules.filter(({ action, live }) => action !== 'delete' && (action !== 'skip' || live !== null));
  const order = new Map(rules.map((change, index) => [change, index]));
  const pairs: (readonly [RuleChange, RuleChange])[] = [];
  const ruleOf = ({ desired, live }: RuleChange) => (desired ?? live)?.rule as LiveRule['rule'];
  eachCollision(arriving.map(ruleOf), staying.map(ruleOf), (left, right) => {
    const [mine, other] = [arriving[left] as RuleChange, staying[right] as RuleChange];
    if (mine === other) return;
    const both = other.action === 'create' || other.action === 'update';
    if (both && (order.get(other) as number) < (order.get(mine) as number)) return; // found from the other side too
    pairs.push([mine, other]);
  });
  const position = (change: RuleChange) => order.get(change) as number;
  return pairs
    .sort(([a, b], [c, d]) => position(a) - position(c) || position(b) - position(d))
    .map(([mine, other]) => refuse(mine, other));
}

function refuse({ desired, source }: RuleChange, other: RuleChange): Refusal {
  if (desired === null) throw new Error('a created or updated rule is desired');
  const mine = `Rule \`${desired.name}\` (${formatRuleKey(desired.rule)})`;
  const here = source === null ? [] : [{ place: source, note: `\`${desired.name}\` is written here` }];
  if (other.desired !== null) {
    const theirs = `rule \`${other.desired.name}\` (${formatRuleKey(other.desired.rule)})`;
    return {
      code: 'desired-rules-collide',
      summary: `${mine} collides with ${theirs}: the server holds only one of them.`,
      hint: 'Keep the wider rule and remove the other, or make their destinations or ports disjoint.',
      related: [...here, { place: other.desired.place, note: `\`${other.desired.name}\` is written here` }],
    };
  }
  const live =
    other.live === null ? 'a live rule' : `the live rule ${other.live.id} (${formatRuleKey(other.live.rule)})`;
  if (other.reason === 'out-of-scope') {
    return {
      code: 'collides-out-of-scope',
      summary: `${mine} collides with ${live}, which is outside the scope of this run.`,
      hint: 'Change the rule, widen the scope, or have the owner of the live rule remove it.',
      related: here,
    };
  }
  return {
    code: 'collides-with-kept',
    summary: `${mine} collides with ${live}, which is not deleted without pruning.`,
    hint: 'Add the live rule to the manifests, remove it by hand, or run with `--prune all`.',
    related: here,
  };
}

/** Calls `visit` with the index of every pair, one of each list, that the server refuses to hold at once. */
function eachCollision(
  left: readonly Rule[],
  right: readonly Rule[],
  visit: (left: number, right: number) => void,
): void {
  const classes = new Set(left.map(collisionClass));
  const entries = [...left.entries()].map(([index, rule]) => ({ index, rule, isLeft: true }));
  for (const [index, rule] of right.entries()) {
    if (classes.has(collisionClass(rule))) entries.push({ index, rule, isLeft: false });
  }
  for (const group of groupBy(entries, ({ rule }) => collisionClass(rule)).values()) {
    eachMeeting(
      group,
      ({ rule }) => rule,
      (outer, inner) => {
        if (outer.isLeft === inner.isLeft || !collides(outer.rule, inner.rule)) return;
        if (outer.isLeft) visit(outer.index, inner.index);
        else visit(inner.index, outer.index);
      },
    );
  }
}

/** Rules of different classes never collide: same action, user scope and port presence; with ports, same type. */
function collisionClass(rule: Rule): string {
  return `${rule.action} ${rule.ports?.type ?? 'any'} ${rule.userId ?? '*'}`;
}
