import { getOrMake } from '../model/group-by.ts';
import { compareText } from '../model/problem.ts';
import {
  type DesiredRule,
  formatRuleKey,
  isModifiedInPlace,
  type LiveRule,
  pickNotes,
  type Rule,
  sortByRule,
  toWire,
  wireFields,
} from '../model/rule.ts';
import { isInScope } from '../model/state.ts';
import type { PlanInput } from './input.ts';
import { matchRules, type Pair } from './match/match.ts';
import { type BaseRules, findOrigin, indexBase } from './origin.ts';
import type { FieldChange, FieldValue, Reason, RuleChange } from './plan.ts';

/**
 * Decides one action for each object: every desired rule and every live rule, in canonical order. `kept`: pairs that the input leaves
 * out, since nothing about them differs.
 *
 * | desired | live | condition                                            | action | reason            |
 * |---------|------|------------------------------------------------------|--------|-------------------|
 * | yes     | no   |                                                      | create | desired-only      |
 * | yes     | yes  | equal, a base is known and lacks the rule            | keep   | adopted           |
 * | yes     | yes  | equal, modified in place, replacement asked for      | update | modified-in-place |
 * | yes     | yes  | equal, the kernel lacks it, repair asked for         | update | not-enforced      |
 * | yes     | yes  | equal otherwise                                      | keep   | in-sync           |
 * | yes     | yes  | different                                            | update | differs           |
 * | either or both | | out of scope                                         | skip   | out-of-scope      |
 * | no      | yes  | pruning off                                          | skip   | prune-off         |
 * | no      | yes  | second copy of a desired rule                        | delete | duplicate         |
 * | no      | yes  | otherwise                                            | delete | not-desired       |
 */
export function decideRules(input: PlanInput, kept: readonly Omit<Pair, 'equal'>[] = []): readonly RuleChange[] {
  const base = indexBase(input.base);
  const mine = input.live.rules.filter(({ rule }) => isInScope(rule, input.scope));
  const matching = matchRules({
    desired: input.desired.rules.filter(({ rule }) => isInScope(rule, input.scope)),
    live: mine,
    base: input.base,
    pairByRelation: input.options.prune === 'all',
  });
  const changes = [
    ...kept.map((pair) => paired(pair, 'keep', 'in-sync')),
    ...matching.pairs.map((pair) => decidePair(pair, input, base)),
    ...matching.desiredOnly.map((rule) => decideCreate(rule, input, base)),
    ...matching.liveOnly.map((live) => decideSurplus(live, matching.duplicates.has(live), input, base)),
    ...outOfScope(input),
  ];
  return sortByRule(changes, ruleOf, compareChanges);
}

function decidePair(pair: Pair, input: PlanInput, base: BaseRules | null): RuleChange {
  const { desired, live } = pair;
  if (!pair.equal) {
    const fields = listUpdatedFields(live, desired.rule);
    return {
      ...paired(pair, 'update', 'differs', fields),
      via: input.profile.ruleUpdates,
      ...origin(desired, live, input, base),
    };
  }
  if (replacesModified(live, input)) {
    const drift = base === null ? {} : { origin: 'drift' as const };
    return { ...paired(pair, 'update', 'modified-in-place'), via: 'replace', ...drift };
  }
  if (input.notEnforced?.has(live.id) === true) return { ...paired(pair, 'update', 'not-enforced'), via: 'replace' };
  const adopted = base !== null && !base.all.has(desired) && !base.byKey.has(formatRuleKey(desired.rule));
  return paired(pair, 'keep', adopted ? 'adopted' : 'in-sync');
}

function paired(
  { desired, live }: Omit<Pair, 'equal'>,
  action: 'update' | 'keep',
  reason: Reason,
  fields = noFields,
): RuleChange {
  return {
    kind: 'Rule',
    action,
    via: null,
    reason,
    name: desired.name,
    id: live.id,
    fields,
    source: desired.place,
    ...pickNotes(desired),
    desired,
    live,
  };
}

function replacesModified(live: LiveRule, { options, profile }: PlanInput): boolean {
  return options.replaceModified && profile.filter !== null && isModifiedInPlace(live);
}

function decideCreate(desired: DesiredRule, input: PlanInput, base: BaseRules | null): RuleChange {
  return {
    kind: 'Rule',
    action: 'create',
    via: null,
    reason: 'desired-only',
    ...origin(desired, null, input, base),
    name: desired.name,
    id: null,
    fields: listCreatedFields(desired.rule),
    source: desired.place,
    ...pickNotes(desired),
    desired,
    live: null,
  };
}

function decideSurplus(live: LiveRule, duplicate: boolean, input: PlanInput, base: BaseRules | null): RuleChange {
  const expired = expiredOf(input).get(formatRuleKey(live.rule));
  const known = expired ?? base?.byKey.get(formatRuleKey(live.rule));
  const common = {
    kind: 'Rule',
    via: null,
    name: known?.name ?? null,
    id: live.id,
    source: known?.place ?? null,
    ...pickNotes(known ?? {}),
    desired: null,
    live,
  } as const;
  const { prune } = input.options;
  const kept =
    (prune === 'none' && expired === undefined) || (typeof prune !== 'string' && !prune.has(formatRuleKey(live.rule)));
  if (kept) return { ...common, action: 'skip', reason: 'prune-off', fields: noFields };
  const reason = duplicate ? 'duplicate' : 'not-desired';
  if (expired !== undefined && !duplicate) {
    return { ...common, action: 'delete', reason: 'not-desired', origin: 'expired', fields: listDeletedFields(live) };
  }
  const who = duplicate && base !== null ? { origin: 'drift' as const } : origin(null, live, input, base);
  return { ...common, action: 'delete', reason, ...who, fields: listDeletedFields(live) };
}

const expiredByInput = new WeakMap<PlanInput, ReadonlyMap<string, DesiredRule>>();

/** The rules that the manifests still name and that have ended, by key. */
function expiredOf(input: PlanInput): ReadonlyMap<string, DesiredRule> {
  const { expired } = input.desired;
  return getOrMake(expiredByInput, input, () => new Map(expired?.map((rule) => [formatRuleKey(rule.rule), rule])));
}

function origin(
  desired: DesiredRule | null,
  live: LiveRule | null,
  input: PlanInput,
  base: BaseRules | null,
): Pick<RuleChange, 'origin'> {
  if (base === null) return {};
  return { origin: findOrigin({ desired, live, base, applied: input.baseApplied === true }) };
}

/** Live rules that are somebody else's, and desired ones that should not have come this far: neither is touched. */
function outOfScope({ live, desired, scope }: PlanInput): readonly RuleChange[] {
  const common = { kind: 'Rule', action: 'skip', via: null, reason: 'out-of-scope', fields: noFields } as const;
  return [
    ...live.rules
      .filter(({ rule }) => !isInScope(rule, scope))
      .map((item) => ({ ...common, name: null, id: item.id, source: null, desired: null, live: item })),
    ...desired.rules
      .filter(({ rule }) => !isInScope(rule, scope))
      .map((item) => ({ ...common, name: item.name, id: null, source: item.place, desired: item, live: null })),
  ];
}

/** Changes of equal rules: by action, then by name, then (exact duplicates) by id. */
function compareChanges(a: RuleChange, b: RuleChange): number {
  return (
    compareText(a.action, b.action) || compareText(a.name ?? '', b.name ?? '') || compareText(a.id ?? '', b.id ?? '')
  );
}

function ruleOf(change: RuleChange): Rule {
  const about = change.desired ?? change.live;
  if (about === null) throw new Error('a rule change names a desired or a live rule');
  return about.rule;
}

type Fields = Readonly<Record<string, FieldChange>>;

const noFields: Fields = Object.freeze({});

/** The fields of a rule that is created: nothing before. */
function listCreatedFields(rule: Rule): Fields {
  return mapFields(toWire(rule), (after) => ({ before: null, after }));
}

/** The fields of a rule that is deleted: nothing after; the destination as the server stores it. */
function listDeletedFields(live: LiveRule): Fields {
  const wire = { ...toWire(live.rule), destination: live.destinationText };
  return mapFields(wire, (before) => ({ before, after: null }));
}

/** The fields in which two rules differ; the destination before as the server stores it. */
function listUpdatedFields(live: LiveRule, rule: Rule): Fields {
  const [before, after] = [toWire(live.rule), toWire(rule)];
  const fields: Record<string, FieldChange> = {};
  for (const name of wireFields) {
    if (before[name] === after[name]) continue;
    fields[name] = { before: name === 'destination' ? live.destinationText : before[name], after: after[name] };
  }
  return fields;
}

function mapFields(wire: object, change: (value: FieldValue) => FieldChange): Fields {
  return Object.fromEntries(Object.entries(wire).map(([name, value]) => [name, change(value as FieldValue)]));
}
