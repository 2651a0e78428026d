import { type ConfigurationFields, configurationFields } from '../model/configuration.ts';
import { groupBy } from '../model/group-by.ts';
import { createTouches } from '../model/intervals.ts';
import { formatCount } from '../model/printable.ts';
import { type DesiredRule, findDifferences, formatRuleKey, type Rule, selectRulesAt } from '../model/rule.ts';
import { type DesiredState, listBoundaries } from '../model/state.ts';
import { computeEffect, mostTraffic } from '../policy/effect.ts';
import type { FoundEffect } from '../policy/traffic.ts';
import { decideRules, listTimes } from './decide.ts';
import { decideConfiguration } from './decide-configuration.ts';
import { guardPlan } from './guard/guard.ts';
import type { Guarded } from './guard/guard-traffic.ts';
import type { PlanInput } from './input.ts';
import { type Change, type LaterEffect, type Plan, type Refusal, type RuleChange, summarise } from './plan.ts';

type Comparison = Pick<PlanInput, 'profile' | 'scope' | 'options'> & Readonly<Record<'before' | 'after', DesiredState>>;

/** The changes, effect and refusals between two desired states, without a server. Later times of rules are changes too. */
export function diffDesired(comparison: Comparison): Plan {
  const { before, after } = comparison;
  const rules = findChanges(before, after);
  const { kept, left, changed } = rules;
  const former = new Map(left.map((one) => [one.name, one]));
  // A rule whose times alone differ is itself, whatever else has its content.
  const keyOf = ({ name, rule }: DesiredRule): string => `${name} ${formatRuleKey(rule)}`;
  const keys = new Set(left.map(keyOf));
  const retimed = changed.filter((one) => keys.has(keyOf(one)));
  const names = new Set(retimed.map(({ name }) => name));
  const isOther = ({ name }: DesiredRule): boolean => !names.has(name);
  const input = makeInput(comparison, { left: left.filter(isOther), changed: changed.filter(isOther) });
  const same = [...kept, ...retimed].map((desired) => ({ desired, live: liveOf(desired) }));
  const decided = decideConfiguration(input);
  // Nothing is sent: no secret has to be known, or bound to where it would go. What differs at most in one is skipped.
  const made = { action: 'update', via: 'patch', reason: 'differs' } as const;
  const stays = decided?.change.action === 'keep' || decided?.change.reason === 'unknown-secret';
  const configuration = decided && { ...decided, sent: [], change: { ...decided.change, ...(stays ? {} : made) } };
  const ofRules = decideRules(input, same).map((change) => tellChange(change, former.get(change.live?.id ?? '')));
  const changes: readonly Change[] = configuration === null ? ofRules : [...ofRules, configuration.change];
  const { effect, later } = compareTimes(rules, before.at ?? after.at ?? 0);
  return judgePlan({ input, changes, configuration, effect, exposure: [] }, later, { steps: [], problems: [] });
}

/** The plan of these parts, with what guards say of it. `later`: as `compareTimes` has it. */
export function judgePlan(
  guarded: Omit<Guarded, 'later' | 'steps'>,
  later: readonly LaterEffect[] | null,
  { steps, problems }: Pick<Plan, 'steps' | 'problems'>,
): Plan {
  const { input, changes, effect, exposure } = guarded;
  const { at } = input.desired;
  const refusals = guardPlan({ ...guarded, steps, later: later ?? [] });
  return {
    profile: input.profile.name,
    ruleUpdates: input.profile.ruleUpdates,
    changes,
    steps,
    problems,
    refusals: later === null ? [...refusals, manyTimes] : refusals,
    effect,
    ...(later?.length ? { later } : {}),
    exposure,
    summary: summarise(changes, steps),
    ...(at === undefined ? {} : { at }),
  };
}

/** A server that holds what differs of the rules before, under their names, and the managed part of the Configuration, the rest as null. */
function makeInput(
  { before, after, profile, scope, options }: Comparison,
  { left, changed }: Pick<ReturnType<typeof findDifferences>, 'left' | 'changed'>,
): PlanInput {
  const nothing = Object.fromEntries(configurationFields.map((field) => [field, null]));
  const lists = { openid_connect_providers: [], saml_identity_providers: [] };
  const fields = { ...nothing, ...lists, ...before.configuration?.fields } as unknown as ConfigurationFields;
  const [noLimit, prune] = [{ share: Number.POSITIVE_INFINITY }, 'all' as const];
  const noGuards = { prune, maxDeletes: noLimit, maxChanges: noLimit, allowEmpty: true, allowLockout: true };
  return {
    // Those that begin later are among the changed.
    desired: { ...after, rules: changed, upcoming: [] },
    live: { rules: left.map(liveOf), configuration: { id: '', fields } },
    base: { ...before, rules: left },
    // Neither side holds rules that collide.
    profile: { ...profile, ruleUpdates: 'patch', refusesCollisions: false },
    scope,
    options: { ...options, ...noGuards },
  };
}

function liveOf({ name, rule }: DesiredRule) {
  return { id: name, rule, destinationText: rule.destination.text, insertedAt: '', updatedAt: '' };
}

/** Without a server nothing drifts. A rule that begins or ends at another time is changed as one with other fields is. */
function tellChange(decided: RuleChange, former: DesiredRule | undefined): RuleChange {
  const { desired, reason, origin } = decided;
  const own = { origin: 'this-revision' } as const;
  const change = { ...decided, ...(origin && own), reason: reason === 'duplicate' ? ('not-desired' as const) : reason };
  if (former === undefined || desired === null) return change;
  const times = listTimes(former, desired);
  if (Object.keys(times).length === 0) return change;
  const all = { ...change.fields, ...times };
  return { ...change, ...own, action: 'update', via: 'patch', reason: 'differs', fields: all };
}

/** How the rules of one state, in force now or later, became those of another. `stays`: beside both, until a rule like it ends. */
export function findChanges(before: DesiredState, after: DesiredState, stays: readonly DesiredRule[] = []) {
  const listRules = ({ rules, upcoming = [] }: DesiredState) => [...rules, ...upcoming];
  const endAs = ({ rules, upcoming = [] }: DesiredState): readonly DesiredRule[] => {
    if (stays.length === 0) return [];
    // The last of a key counts: the one in force, else the first to begin, until those that follow it without a gap have ended.
    const timed = upcoming.toSorted((a, b) => (b.notBefore ?? 0) - (a.notBefore ?? 0));
    const ends = new Map([...timed, ...rules].map((one) => [formatRuleKey(one.rule), one.staysUntil ?? one.expires]));
    return stays.map((one) => {
      const expires = ends.get(formatRuleKey(one.rule)) ?? Number.POSITIVE_INFINITY;
      return Number.isFinite(expires) ? { ...one, expires } : one;
    });
  };
  const changes = findDifferences([...endAs(before), ...listRules(before)], [...endAs(after), ...listRules(after)]);
  return { ...changes, isNew: listRules(before).length === 0 };
}

/** The traffic that differs at this time (ms since 1970) between rules that have times, and what differs later; null: too many looks. */
export function compareTimes({ kept, left, changed, isNew }: ReturnType<typeof findChanges>, at: number) {
  const users = new Set([...kept, ...left, ...changed].flatMap(({ rule }) => rule.userId ?? []));
  const all = { before: [...kept, ...left], after: [...kept, ...changed] };
  const sides = { ...selectNear(all, [...left, ...changed]), users };
  const effect = computeEffectAt(sides, at);
  if (!isNew) return { effect, later: findLaterEffects(sides, at) };
  // Without rules before everything passed, and nothing would open later.
  const inForce = selectRulesAt(sides.after, at).map(({ notBefore: _, expires: __, ...rule }) => rule);
  return { effect, later: findLaterEffects({ ...sides, before: inForce }, at) };
}

/** Rules of both sides that are in force now or later, and the users whom an answer tells apart at all times. */
interface Sides {
  readonly before: readonly DesiredRule[];
  readonly after: readonly DesiredRule[];
  readonly users: ReadonlySet<string>;
}

function computeEffectAt({ before, after, users }: Sides, time: number, most = mostTraffic): FoundEffect {
  const rulesOf = (side: readonly DesiredRule[]): readonly Rule[] => selectRulesAt(side, time).map(({ rule }) => rule);
  return computeEffect(rulesOf(before), rulesOf(after), users, most);
}

/**
 * Looks at rules for all times at which one begins or ends, at most: a quarter to see whether it is near what turns, ten to compute the
 * traffic of one, and a tenth of the characters that tell that traffic.
 */
const mostLooks = 5_000_000;

/** What differs later: an entry for each time after `at` from which the difference is another. Null: it takes too many looks at a rule. */
function findLaterEffects(sides: Sides, at: number): readonly LaterEffect[] | null {
  const rules = [...sides.before, ...sides.after];
  const later: LaterEffect[] = [];
  const turns = groupBy(listBoundaries({ rules }, at), (one) => one.at);
  let [then, last, looks]: [number, string | null, number] = [at, null, 0];
  const readAt = (where: Sides, time: number) => {
    // A part of traffic is text of a hundred characters, at least.
    const effect = computeEffectAt(where, time, (mostLooks - looks) / 10);
    const text = effect.isCut ? '' : JSON.stringify(effect);
    looks += effect.isCut ? mostLooks : text.length / 10 + 10 * (where.before.length + where.after.length);
    return { effect, text };
  };
  for (const [from, turning] of [...turns].sort(([a], [b]) => a - b)) {
    looks += rules.length / 4;
    // What begins or ends changes nothing elsewhere, nor for users without rules there.
    const turned = turning.map(({ rule }) => rule);
    const near = selectNear(sides, turned);
    const [earlier, present] = [readAt(near, then), readAt(near, from)];
    then = from;
    if (looks > mostLooks) return null;
    if (earlier.text === present.text) continue;
    last ??= readAt(sides, at).text;
    const { effect, text } = readAt(sides, from);
    if (looks > mostLooks) return null;
    if (text !== last) later.push({ from, effect, users: sides.users });
    last = text;
  }
  return later;
}

/** The rules that decide with these about the same packets: those that share addresses with one, of the same users or of everybody. */
function selectNear({ before, after }: Omit<Sides, 'users'>, turning: readonly { readonly rule: Rule }[]): Sides {
  const touches = createTouches(turning.map(({ rule }) => rule.destination));
  const owners = new Set(turning.map(({ rule }) => rule.userId));
  const isNear = ({ rule: { userId, destination } }: DesiredRule): boolean =>
    (userId === null || owners.has(userId) || owners.has(null)) && touches(destination);
  const near = { before: before.filter(isNear), after: after.filter(isNear) };
  return { ...near, users: new Set([...near.before, ...near.after].flatMap(({ rule }) => rule.userId ?? [])) };
}

/** Who asks for a refusal of traffic that opens must not be told that there is none where nobody looked. */
const manyTimes: Refusal = {
  code: 'too-many-times',
  summary: `The rules begin and end at more times than can be compared (${formatCount(mostLooks)} looks at a rule).`,
  hint: 'Let rules begin and end on the same day, or compare smaller folders.',
};
