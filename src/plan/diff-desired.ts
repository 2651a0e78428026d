import { type ConfigurationFields, configurationFields, type DesiredConfiguration } from '../model/configuration.ts';
import { groupBy } from '../model/group-by.ts';
import type { Profile } from '../model/profile.ts';
import { compareRules, type DesiredRule, type LiveRule } from '../model/rule.ts';
import type { DesiredState, Scope } from '../model/state.ts';
import { computeEffect } from '../policy/effect.ts';
import { decideRules } from './decide.ts';
import { decideConfiguration } from './decide-configuration.ts';
import { addTimes, findLaterEffects, refuseManyTimes } from './diff-times.ts';
import { guardPlan } from './guard/guard.ts';
import type { PlanInput, PlanOptions } from './input.ts';
import { listStates, summarise } from './make-plan.ts';
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
export function diffDesired(comparison: DesiredComparison): Plan {
  const { before, after, profile, scope, options } = comparison;
  const input: PlanInput = {
    desired: after,
    live: { rules: before.rules.map(asLive), configuration: configurationOf(before.configuration) },
    base: before,
    // Neither side holds rules that collide.
    profile: { ...profile, ruleUpdates: 'patch', refusesCollisions: false },
    scope,
    options: {
      ...options,
      prune: 'all',
      maxDeletes: { share: 1 },
      maxChanges: { share: 1 },
      allowEmpty: true,
      allowLockout: true,
    },
  };
  const rules = decideBetween(before.rules, after.rules, input);
  const upcoming = decideBetween(before.upcoming ?? [], after.upcoming ?? [], input);
  const decided = decideConfiguration(input);
  // Secrets are never looked up: a Configuration that is the same but for them is the same.
  const configuration = decided?.change.reason === 'unknown-secret' ? null : decided;
  const others: readonly Change[] = configuration === null ? [] : [configuration.change];
  const changes = [...rules, ...upcoming, ...others];
  const states = listStates(rules);
  const effect = computeEffect(states.before, states.after);
  const later = findLaterEffects(comparison, effect);
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
      ...guardPlan({ input, changes: [...rules, ...others], configuration, effect: guarded, exposure: [] }),
      ...(later === null ? [refuseManyTimes()] : []),
    ],
    effect,
    ...(later === null || later.length === 0 ? {} : { later }),
    exposure: [],
    summary: summarise(changes, []),
    ...(after.at === undefined ? {} : { at: after.at }),
  };
}

/** The changes from some rules to others. Only those that are not the same on both sides are looked at. */
function decideBetween(
  before: readonly DesiredRule[],
  after: readonly DesiredRule[],
  input: PlanInput,
): readonly RuleChange[] {
  const byName = new Map(before.map((one) => [one.name, one]));
  const sorted = groupBy(after, (one) => isSame(one, byName.get(one.name)));
  const [kept, changed] = [sorted.get(true) ?? [], sorted.get(false) ?? []];
  const names = new Set(kept.map(({ name }) => name));
  const former = before.filter(({ name }) => !names.has(name));
  const decided = decideRules(
    {
      ...input,
      desired: { ...input.desired, rules: changed },
      live: { ...input.live, rules: former.map(asLive) },
      base: { ...(input.base ?? input.desired), rules: former },
    },
    kept.map((one) => ({ desired: one, live: asLive(one) })),
  );
  return decided.map((change) => addTimes(change, byName.get(change.live?.id ?? '')));
}

/** Whether a rule is what the other side has under its name. */
function isSame(one: DesiredRule, before: DesiredRule | undefined): boolean {
  return before !== undefined && (before === one || compareRules(before.rule, one.rule) === 0);
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
