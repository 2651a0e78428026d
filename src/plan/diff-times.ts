import { formatInstant } from '../model/instant.ts';
import { formatCount } from '../model/printable.ts';
import { type DesiredRule, formatRuleKey, isDesiredAt, type RuleNotes } from '../model/rule.ts';
import { type DesiredState, isInScope, listAllRules, type Scope } from '../model/state.ts';
import { computeEffect } from '../policy/effect.ts';
import { createTouches } from '../policy/intervals.ts';
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

/** Rules looked at for all times at which one begins or ends, at most. */
const mostLooks = 5_000_000;

/**
 * What differs from later times on: one entry for each boundary of either side after which the difference in traffic is another one
 * than before it, which is `now` at first. Null where there are too many boundaries to look at each.
 */
export function findLaterEffects(
  { before, after, scope }: { readonly before: DesiredState; readonly after: DesiredState; readonly scope: Scope },
  now: Effect,
): readonly LaterEffect[] | null {
  // Time may pass between the reads of the two sides.
  const at = Math.min(before.at ?? Number.POSITIVE_INFINITY, after.at ?? Number.POSITIVE_INFINITY);
  const isOurs = ({ rule }: DesiredRule): boolean => isInScope(rule, scope);
  const former = listAllRules(before);
  const sides = [former, [...listAllRules(after).filter(isOurs), ...former.filter((one) => !isOurs(one))]] as const;
  // Where no rule differs, both sides change alike.
  const touches = createTouches(listDiffering(...sides).map(({ rule }) => rule.destination));
  const near = sides.flat().filter(({ rule }) => touches(rule.destination));
  const times = new Set(near.flatMap(({ notBefore = at, expires = at }) => [notBefore, expires]));
  const boundaries = [...times].filter((time) => time > at).sort((a, b) => a - b);
  if (boundaries.length * (sides[0].length + sides[1].length) > mostLooks) return null;
  let last = JSON.stringify(now);
  return boundaries.flatMap((from) => {
    const [one, other] = sides.map((rules) => rules.filter((rule) => isDesiredAt(rule, from)).map(({ rule }) => rule));
    const effect = computeEffect(one ?? [], other ?? []);
    const text = JSON.stringify(effect);
    if (text === last) return [];
    last = text;
    return [{ from, effect }];
  });
}

/** The rules of either side that the other does not have with the same times. */
function listDiffering(one: readonly DesiredRule[], other: readonly DesiredRule[]): readonly DesiredRule[] {
  const key = ({ rule, notBefore, expires }: DesiredRule): string => `${formatRuleKey(rule)} ${notBefore} ${expires}`;
  const missingIn = (rules: readonly DesiredRule[]): ((rule: DesiredRule) => boolean) => {
    const keys = new Set(rules.map(key));
    return (rule) => !keys.has(key(rule));
  };
  return [...one.filter(missingIn(other)), ...other.filter(missingIn(one))];
}

/** Who asks for a refusal of traffic that opens must not be told that there is none where nobody looked. */
export function refuseManyTimes(): Refusal {
  return {
    code: 'too-many-times',
    summary: `The rules begin and end at more times than can be compared (${formatCount(mostLooks)} looks at a rule).`,
    hint: 'Let rules begin and end on the same day, or compare smaller folders.',
  };
}
