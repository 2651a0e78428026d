import { groupBy } from '../model/group-by.ts';
import { formatInstant } from '../model/instant.ts';
import { createTouches } from '../model/intervals.ts';
import { formatCount } from '../model/printable.ts';
import { type DesiredRule, isDesiredAt, type Rule, type RuleNotes } from '../model/rule.ts';
import { computeOwnEffect } from '../policy/effect.ts';
import type { Effect } from '../policy/traffic.ts';
import type { FieldChange, LaterEffect, Refusal, RuleChange } from './plan.ts';

/** A rule that both sides have, and that begins or ends at another time, is changed as one with other fields is. */
export function addTimes(change: RuleChange, former: DesiredRule | undefined): RuleChange {
  const { desired } = change;
  if (former === undefined || desired === null) return change;
  const fields: Record<string, FieldChange> = {};
  for (const [name, key] of timeFields) {
    if (former[key] !== desired[key])
      fields[name] = { before: formatTime(former[key]), after: formatTime(desired[key]) };
  }
  if (Object.keys(fields).length === 0) return change;
  return { ...change, action: 'update', via: 'patch', reason: 'differs', fields: { ...change.fields, ...fields } };
}

const timeFields = [
  ['not_before', 'notBefore'],
  ['expires', 'expires'],
] as const satisfies readonly (readonly [string, keyof RuleNotes])[];

function formatTime(time: number | undefined): string | null {
  return time === undefined ? null : formatInstant(time);
}

/** Whether a rule begins and ends when another does. */
export function hasSameTimes(one: RuleNotes, other: RuleNotes): boolean {
  return timeFields.every(([, key]) => one[key] === other[key]);
}

/** Rules of both sides that are in force now or later, and the users whom an answer tells apart. */
export interface Sides {
  readonly before: readonly DesiredRule[];
  readonly after: readonly DesiredRule[];
  readonly users: readonly string[];
}

/** The difference in traffic at a time. Users with a rule at another time are told apart too, so that all times name the same people. */
export function computeEffectAt({ before, after, users }: Sides, time: number): Effect {
  const rulesOf = (side: readonly DesiredRule[]): readonly Rule[] =>
    side.filter((one) => isDesiredAt(one, time)).map(({ rule }) => rule);
  return computeOwnEffect([rulesOf(before)], rulesOf(after), users);
}

/** Rules looked at for all times at which one begins or ends, at most; one whose traffic is computed counts ten times. */
const mostLooks = 50_000_000;

/**
 * What differs from later times on: one entry for each time after `at` at which a rule begins or ends and the difference in traffic
 * becomes another one; `now` is the difference at `at`. Null where that takes too many looks at a rule.
 */
export function findLaterEffects(sides: Sides, at: number, now: Effect): readonly LaterEffect[] | null {
  const rules = [...sides.before, ...sides.after];
  const turns = rules.flatMap(({ rule, notBefore = at, expires = at }) =>
    [notBefore, expires].flatMap((time) => (time > at ? { time, rule } : [])),
  );
  const later: LaterEffect[] = [];
  let [then, last, looks] = [at, JSON.stringify(now), 0];
  for (const [from, turning] of [...groupBy(turns, ({ time }) => time)].sort(([a], [b]) => a - b)) {
    const near = selectNear(sides, turning);
    // What begins or ends changes nothing elsewhere.
    const [earlier, present] = [then, from].map((time) => JSON.stringify(computeEffectAt(near, time)));
    then = from;
    looks += rules.length + (earlier === present ? 0 : 10 * rules.length);
    if (looks > mostLooks) return null;
    if (earlier === present) continue;
    const effect = computeEffectAt(sides, from);
    const text = JSON.stringify(effect);
    if (text !== last) later.push({ from, effect });
    last = text;
  }
  return later;
}

/** The rules that decide with these about the same packets: those that share addresses with one, of the same users or of everybody. */
function selectNear({ before, after, users }: Sides, turning: readonly { readonly rule: Rule }[]): Sides {
  const touches = createTouches(turning.map(({ rule }) => rule.destination));
  const owners = new Set(turning.map(({ rule }) => rule.userId));
  const isNear = ({ rule: { userId, destination } }: DesiredRule): boolean =>
    (userId === null || owners.has(userId) || owners.has(null)) && touches(destination);
  return { before: before.filter(isNear), after: after.filter(isNear), users };
}

/** Who asks for a refusal of traffic that opens must not be told that there is none where nobody looked. */
export const manyTimes: Refusal = {
  code: 'too-many-times',
  summary: `The rules begin and end at more times than can be compared (${formatCount(mostLooks)} looks at a rule).`,
  hint: 'Let rules begin and end on the same day, or compare smaller folders.',
};
