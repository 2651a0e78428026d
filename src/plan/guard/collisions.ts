import { groupBy } from '../../model/group-by.ts';
import { collides, type Rule } from '../../model/rule.ts';
import { eachMeeting } from '../meeting.ts';

/** Calls `visit` with the index of every pair, one of each list, that the server refuses to hold at once. */
export function eachCollision(
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
