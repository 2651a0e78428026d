import { formatInstant } from '../model/instant.ts';
import { compareText } from '../model/problem.ts';
import type { DesiredRule, LiveRule, Rule } from '../model/rule.ts';
import { formatRuleKey, isDesiredAt, isModifiedInPlace, pickNotes, sortByRule, wireFields } from '../model/rule.ts';
import { type DesiredState, isInScope } from '../model/state.ts';
import type { PlanInput } from './input.ts';
import { matchRules, type Pair } from './match/match.ts';
import { type BaseRules, findLapsed, indexBase } from './origin.ts';
import { type ChangeAction, type FieldChange, getChangedRule, type Reason, type RuleChange } from './plan.ts';

/**
 * Decides one action for each object: every desired rule and every live rule, in canonical order. `kept`: rules that the
 * input leaves out, since nothing about them differs but, of two policies, their times. `lapsed`: what has ended by the base.
 *
 * | desired | live | condition                                            | action | reason            |
 * |---------|------|------------------------------------------------------|--------|-------------------|
 * | yes     | no   |                                                      | create | desired-only      |
 * | yes     | yes  | equal, a base is known and lacks the rule at `at`    | keep   | adopted           |
 * | yes     | yes  | equal, modified in place, replacement asked for      | update | modified-in-place |
 * | yes     | yes  | equal, the kernel lacks it, repair asked for         | update | not-enforced      |
 * | yes     | yes  | equal otherwise                                      | keep   | in-sync           |
 * | yes     | yes  | different                                            | update | differs           |
 * | either or both | | out of scope                                         | skip   | out-of-scope      |
 * | no      | yes  | pruning off, but for one that ended or begins later  | skip   | prune-off         |
 * | no      | yes  | second copy of a desired rule                        | delete | duplicate         |
 * | no      | yes  | otherwise                                            | delete | not-desired       |
 */
export function decideRules(input: PlanInput, kept: readonly Sides[] = [], lapsed: Former['idle'] = new Map()) {
  const base = indexBase(input.base);
  const idle = indexIdle(input.desired);
  const mine = input.live.rules.filter(({ rule }) => isInScope(rule, input.scope));
  const matching = matchRules({
    desired: input.desired.rules.filter(({ rule }) => isInScope(rule, input.scope)),
    live: mine,
    base: input.base,
    mayPair: ({ rule }) =>
      input.options.prune === 'all' && (idle.size === 0 || idle.get(formatRuleKey(rule))?.expires === undefined),
  });
  const changes = [
    ...kept.map((sides) => makeChange('keep', 'in-sync', sides)),
    ...matching.pairs.map((pair) => decidePair(pair, input, base, lapsed)),
    ...matching.desiredOnly.map((desired) =>
      makeChange('create', 'desired-only', { desired, live: null }, origin({ desired, live: null }, input, base)),
    ),
    ...matching.liveOnly.map((live) =>
      decideSurplus(live, matching.duplicates.has(live), input, { base, idle, lapsed }),
    ),
    ...outOfScope(input),
  ];
  return sortByRule(changes, getChangedRule, compareChanges);
}

function decidePair(pair: Pair, input: PlanInput, base: BaseRules | null, lapsed: Former['idle']): RuleChange {
  const { desired, live } = pair;
  if (!pair.equal) {
    const more = { via: input.profile.ruleUpdates, ...origin(pair, input, base) };
    return makeChange('update', 'differs', pair, more);
  }
  const { options, profile } = input;
  if (options.replaceModified && profile.filter !== null && isModifiedInPlace(live)) {
    const drift = base === null ? {} : { origin: 'drift' as const };
    return makeChange('update', 'modified-in-place', pair, { via: 'replace', ...drift });
  }
  if (input.notEnforced?.has(live.id) === true) return makeChange('update', 'not-enforced', pair, { via: 'replace' });
  const was = findLapsed(lapsed, live);
  if (was !== undefined)
    return { ...makeChange('keep', 'adopted', pair, { origin: 'this-revision' }), fields: listTimes(was, desired) };
  const adopted = base !== null && !base.holds(desired);
  return makeChange('keep', adopted ? 'adopted' : 'in-sync', pair);
}

/** What a change is about. `told`: the rule that gives it name, place and notes, by default the desired one. */
interface Sides {
  readonly desired: DesiredRule | null;
  readonly live: LiveRule | null;
  readonly told?: DesiredRule | undefined;
}

function makeChange(
  action: ChangeAction,
  reason: Reason,
  { desired, live, told = desired ?? undefined }: Sides,
  more: Partial<Pick<RuleChange, 'via' | 'origin'>> = {},
): RuleChange {
  return {
    kind: 'Rule',
    action,
    via: null,
    reason,
    name: told?.name ?? null,
    id: live?.id ?? null,
    fields: action === 'keep' || action === 'skip' ? noFields : listFields(live, desired?.rule ?? null),
    source: told?.place.line ? told.place : null,
    desired,
    live,
    ...(told === undefined ? {} : pickNotes(told)),
    ...more,
  };
}

/** Rules that may stand behind a live one that nothing desires now. */
interface Former {
  readonly base: BaseRules | null;
  readonly idle: ReturnType<typeof indexIdle>;
  readonly lapsed: Former['idle'];
}

/** Rules that the manifests name and do not ask for now, by key: of several the last that ended, else the first to begin. */
function indexIdle({ expired = [], upcoming = [] }: DesiredState): ReadonlyMap<string, DesiredRule> {
  const sorted = upcoming.toSorted((a, b) => (b.notBefore ?? 0) - (a.notBefore ?? 0));
  // What is live before its begin was not given until then.
  const endless = sorted.map(({ expires: _, ...one }): DesiredRule => one);
  return new Map([...endless, ...expired].map((one) => [formatRuleKey(one.rule), one]));
}

function decideSurplus(live: LiveRule, duplicate: boolean, input: PlanInput, { base, idle, lapsed }: Former) {
  const key = formatRuleKey(live.rule);
  const named = duplicate ? undefined : idle.get(key);
  const former = base?.find(live.rule, live.id) ?? findLapsed(lapsed, live);
  const sides = { desired: null, live, told: named ?? former };
  const hasEnded = named?.expires !== undefined;
  const { prune } = input.options;
  const kept = typeof prune === 'string' ? prune === 'none' && named === undefined : !prune.has(key);
  if (kept && hasEnded) return makeChange('skip', 'prune-off', sides, { origin: 'expired' });
  if (kept) {
    // Nothing ends a rule that no manifest names any more.
    const { expires: _, ...change } = makeChange('skip', 'prune-off', sides);
    return change;
  }
  if (duplicate) return makeChange('delete', 'duplicate', sides, base === null ? {} : { origin: 'drift' });
  if (hasEnded && !isAsked(former, input.desired.at))
    return makeChange('delete', 'not-desired', sides, { origin: 'expired' });
  return makeChange('delete', 'not-desired', sides, origin(sides, input, base));
}

/** What the base asks for still, this revision ends, whatever time it writes. */
const isAsked = (former: DesiredRule | undefined, at = 0): boolean => former !== undefined && isDesiredAt(former, at);

/**
 * Who made a rule's difference. Where the base is known to have been applied, what it asked for was there once.
 *
 * | desired         | live                | origin                                                        |
 * |-----------------|---------------------|---------------------------------------------------------------|
 * | not in the base | any                 | this-revision                                                 |
 * | in the base     | none                | earlier-not-applied; drift when the base is known as applied  |
 * | in the base     | not in the base     | drift: the live rule was put in its place                     |
 * | in the base     | in the base         | this-revision: the live rule is not asked for any more        |
 * | none            | in the base         | this-revision                                                 |
 * | none            | ended in the base   | expired                                                       |
 * | none            | not in the base     | drift                                                         |
 */
function origin({ desired, live, told }: Sides, input: PlanInput, base: BaseRules | null): Pick<RuleChange, 'origin'> {
  if (base === null) return {};
  if (desired !== null && base.find(desired.rule) === undefined) return { origin: 'this-revision' };
  if (live === null) return { origin: input.baseApplied === true ? 'drift' : 'earlier-not-applied' };
  if (base.find(live.rule) !== undefined) return { origin: 'this-revision' };
  const { at = input.base?.at ?? 0 } = input.desired;
  return { origin: (told?.expires ?? at + 1) <= at ? 'expired' : 'drift' };
}

/** Live rules that are somebody else's, and desired ones that should not have come this far: neither is touched. */
function outOfScope({ live, desired, scope }: PlanInput): readonly RuleChange[] {
  const skip = (sides: Sides): RuleChange => makeChange('skip', 'out-of-scope', sides);
  return [
    ...live.rules.filter(({ rule }) => !isInScope(rule, scope)).map((item) => skip({ desired: null, live: item })),
    ...desired.rules.filter(({ rule }) => !isInScope(rule, scope)).map((item) => skip({ desired: item, live: null })),
  ];
}

/** Changes of equal rules: by action, then by name, then (exact duplicates) by id. */
function compareChanges(a: RuleChange, b: RuleChange): number {
  return (
    compareText(a.action, b.action) || compareText(a.name ?? '', b.name ?? '') || compareText(a.id ?? '', b.id ?? '')
  );
}

const noFields: RuleChange['fields'] = Object.freeze({});

/** The fields in which two rules differ, or all of one that is created or deleted; the destination before as the server stores it. */
function listFields(live: LiveRule | null, rule: Rule | null): RuleChange['fields'] {
  const fields: Record<string, FieldChange> = {};
  for (const { name, read } of wireFields) {
    const before = live === null ? null : read(live.rule);
    const after = rule === null ? null : read(rule);
    if (live !== null && rule !== null && before === after) continue;
    fields[name] = { before: live !== null && name === 'destination' ? live.destinationText : before, after };
  }
  return fields;
}

/** The times in which two rules differ. */
export function listTimes(before: DesiredRule, after: DesiredRule): RuleChange['fields'] {
  const keys = { not_before: 'notBefore', expires: 'expires' } as const;
  const moved = Object.entries(keys).filter(([, key]) => before[key] !== after[key]);
  const format = (time: number | undefined) => (time === undefined ? null : formatInstant(time));
  return Object.fromEntries(
    moved.map(([name, key]) => [name, { before: format(before[key]), after: format(after[key]) }]),
  );
}
