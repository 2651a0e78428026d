import { type ConfigurationFields, configurationFields, type DesiredConfiguration } from '../model/configuration.ts';
import { createTouches } from '../model/intervals.ts';
import type { Profile } from '../model/profile.ts';
import { compareRules, type DesiredRule, type LiveRule } from '../model/rule.ts';
import type { DesiredState, Scope } from '../model/state.ts';
import { decideRules } from './decide.ts';
import { decideConfiguration } from './decide-configuration.ts';
import { addTimes, computeEffectAt, findLaterEffects, hasSameTimes, manyTimes, type Sides } from './diff-times.ts';
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
export function diffDesired({ before, after, profile, scope, options }: DesiredComparison): Plan {
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
  const rules = findDifferences(listLasting(before), listLasting(after));
  const decided = decideConfiguration(input);
  // Secrets are never looked up: a Configuration that is the same but for them is the same.
  const configuration = decided?.change.reason === 'unknown-secret' ? null : decided;
  const changes: readonly Change[] = [
    ...decideDifferences(rules, input),
    ...(configuration === null ? [] : [configuration.change]),
  ];
  const sides = findSides(rules);
  const at = before.at ?? after.at ?? 0;
  const effect = computeEffectAt(sides, at);
  const later = findLaterEffects(sides, at, effect);
  const effects = [effect, ...(later ?? []).map((one) => one.effect)];
  const guarded = { opens: effects.flatMap((one) => one.opens), closes: effects.flatMap((one) => one.closes) };
  return {
    profile: profile.name,
    ruleUpdates: 'patch',
    changes,
    steps: [],
    problems: [],
    refusals: [
      ...guardPlan({ input, changes, configuration, effect: guarded, exposure: [] }),
      ...(later === null ? [manyTimes] : []),
    ],
    effect,
    ...(later === null || later.length === 0 ? {} : { later }),
    exposure: [],
    summary: summarise(changes, []),
    ...(after.at === undefined ? {} : { at: after.at }),
  };
}

/** The rules that are in force or will be. */
function listLasting({ rules, upcoming = [] }: DesiredState): readonly DesiredRule[] {
  return [...rules, ...upcoming];
}

/** Rules that are the same on both sides, under their names and with their times, and the others of either side. */
interface Differences {
  readonly kept: readonly DesiredRule[];
  readonly left: readonly DesiredRule[];
  readonly changed: readonly DesiredRule[];
}

function findDifferences(before: readonly DesiredRule[], after: readonly DesiredRule[]): Differences {
  const left = new Map(before.map((one) => [one.name, one]));
  const [kept, changed]: [DesiredRule[], DesiredRule[]] = [[], []];
  for (const one of after) {
    const former = left.get(one.name);
    const isSame = former && (former.rule === one.rule || compareRules(former.rule, one.rule) === 0);
    if (isSame && hasSameTimes(former, one) && left.delete(one.name)) kept.push(one);
    else changed.push(one);
  }
  return { kept, left: [...left.values()], changed };
}

function decideDifferences({ kept, left, changed }: Differences, input: PlanInput): readonly RuleChange[] {
  const live = { ...input.live, rules: left.map(asLive) };
  const desired = { ...input.desired, rules: changed };
  const base = { ...(input.base ?? desired), rules: left };
  const former = new Map(left.map((one) => [one.name, one]));
  return decideRules({ ...input, desired, live, base }, kept).map((change) =>
    addTimes(change, former.get(change.live?.id ?? '')),
  );
}

/** What decides where traffic may differ: the rules that differ, and those that share addresses with one. */
function findSides({ kept, left, changed }: Differences): Sides {
  const touches = createTouches([...left, ...changed].map(({ rule }) => rule.destination));
  const near = kept.filter(({ rule }) => touches(rule.destination));
  const users = [...kept, ...left, ...changed].flatMap(({ rule }) => rule.userId ?? []);
  // A rule that stays is the same object on both sides: it is not compared again.
  return { before: [...near, ...left], after: [...near, ...changed], users: [...new Set(users)] };
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
