import { type ConfigurationFields, configurationFields, type DesiredConfiguration } from '../model/configuration.ts';
import type { Profile } from '../model/profile.ts';
import { compareRules, type DesiredRule, type LiveRule } from '../model/rule.ts';
import { type DesiredState, isInScope, type Scope } from '../model/state.ts';
import { decideRules } from './decide.ts';
import { decideConfiguration } from './decide-configuration.ts';
import { addTimes, computeEffectAt, findLaterEffects, refuseManyTimes, type Sides } from './diff-times.ts';
import { guardPlan } from './guard/guard.ts';
import type { PlanInput, PlanOptions } from './input.ts';
import { summarise } from './make-plan.ts';
import type { Change, Plan, RuleChange } from './plan.ts';

export interface DesiredComparison {
  readonly before: DesiredState;
  readonly after: DesiredState;
  readonly profile: Profile;
  readonly scope: Scope;
  readonly options: PlanOptions;
}

/**
 * The changes, effect and refusals of going from one desired state to another, without steps and guards of a server. Rules that begin
 * later, and other times of a rule, are changes too: nobody would see them otherwise before they open something.
 */
export function diffDesired({ before, after: given, profile, scope, options }: DesiredComparison): Plan {
  const after = shareRules(given, before);
  const input: PlanInput = {
    desired: after,
    live: { rules: [], configuration: configurationOf(before.configuration) },
    base: before,
    // Neither side holds rules that collide.
    profile: { ...profile, ruleUpdates: 'patch', refusesCollisions: false },
    scope,
    options: {
      ...options,
      prune: 'all',
      maxDeletes: { share: Number.POSITIVE_INFINITY },
      maxChanges: { share: Number.POSITIVE_INFINITY },
      allowEmpty: true,
      allowLockout: true,
    },
  };
  const decided = decideConfiguration(input);
  // Secrets are never looked up: a Configuration that is the same but for them is the same.
  const configuration = decided?.change.reason === 'unknown-secret' ? null : decided;
  const changes: readonly Change[] = [
    ...decideBetween(before.rules, after.rules, input),
    ...decideBetween(before.upcoming ?? [], after.upcoming ?? [], input),
    ...(configuration === null ? [] : [configuration.change]),
  ];
  const sides = sidesOf(before, after, scope);
  const at = before.at ?? after.at ?? 0;
  const effect = computeEffectAt(sides, at);
  const later = findLaterEffects(sides, at, effect);
  const effects = [effect, ...(later ?? []).map((one) => one.effect)];
  const guarded = {
    opens: effects.flatMap(({ opens }) => opens),
    closes: effects.flatMap(({ closes }) => closes),
  };
  return {
    profile: profile.name,
    ruleUpdates: 'patch',
    changes,
    steps: [],
    problems: [],
    refusals: [
      ...guardPlan({ input, changes, configuration, effect: guarded, exposure: [] }),
      ...(later === null ? [refuseManyTimes()] : []),
    ],
    effect,
    ...(later === null || later.length === 0 ? {} : { later }),
    exposure: [],
    summary: summarise(changes, []),
    ...(after.at === undefined ? {} : { at: after.at }),
  };
}

/** What is compared: rules that are not ours stay as they are. */
function sidesOf(before: DesiredState, after: DesiredState, scope: Scope): Sides {
  const [former, wanted] = [listRules(before), listRules(after)];
  const isOurs = ({ rule }: DesiredRule): boolean => isInScope(rule, scope);
  return { before: former, after: [...wanted.filter(isOurs), ...former.filter((one) => !isOurs(one))] };
}

function listRules({ rules, upcoming = [] }: DesiredState): readonly DesiredRule[] {
  return [...rules, ...upcoming];
}

/** A state whose rules are the very objects that the other has under their names, where they are the same: nothing compares them again. */
function shareRules(state: DesiredState, other: DesiredState): DesiredState {
  const known = new Map(listRules(other).map((one) => [one.name, one.rule]));
  const share = (one: DesiredRule): DesiredRule => {
    const rule = known.get(one.name);
    return rule === undefined || rule === one.rule || compareRules(rule, one.rule) !== 0 ? one : { ...one, rule };
  };
  const { rules, upcoming } = state;
  return { ...state, rules: rules.map(share), ...(upcoming === undefined ? {} : { upcoming: upcoming.map(share) }) };
}

/** The changes from some rules to others. Only those that are not the same on both sides are looked at. */
function decideBetween(
  before: readonly DesiredRule[],
  after: readonly DesiredRule[],
  input: PlanInput,
): readonly RuleChange[] {
  const byName = new Map(before.map((one) => [one.name, one]));
  const isKept = ({ name, rule }: DesiredRule): boolean => byName.get(name)?.rule === rule;
  const kept = after.filter(isKept);
  const names = new Set(kept.map(({ name }) => name));
  const left = before.filter(({ name }) => !names.has(name));
  const decided = decideRules(
    {
      ...input,
      desired: { ...input.desired, rules: after.filter((one) => !isKept(one)) },
      live: { ...input.live, rules: left.map(asLive) },
      base: { ...(input.base ?? input.desired), rules: left },
    },
    kept.map((one) => ({ desired: one, live: asLive(one) })),
  );
  return decided.map((change) => addTimes(change, byName.get(change.live?.id ?? '')));
}

function asLive({ name, rule }: DesiredRule): LiveRule {
  return { id: name, rule, destinationText: rule.destination.text, insertedAt: '', updatedAt: '' };
}

/** A server that holds what is managed; of the other fields nothing is known, which is shown as null. */
function configurationOf(configuration: DesiredConfiguration | null): PlanInput['live']['configuration'] {
  const nothing = Object.fromEntries(configurationFields.map((field) => [field, null]));
  const lists = { openid_connect_providers: [], saml_identity_providers: [] };
  return { id: '', fields: { ...nothing, ...lists, ...configuration?.fields } as unknown as ConfigurationFields };
}
