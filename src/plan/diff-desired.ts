import { type ConfigurationFields, configurationFields, type DesiredConfiguration } from '../model/configuration.ts';
import type { Profile } from '../model/profile.ts';
import { compareRules, type DesiredRule, type LiveRule } from '../model/rule.ts';
import type { DesiredState, Scope } from '../model/state.ts';
import { createTouches } from '../policy/intervals.ts';
import { decideRules } from './decide.ts';
import { decideConfiguration } from './decide-configuration.ts';
import {
  addTimes,
  computeEffectAt,
  findLaterEffects,
  hasSameTimes,
  listUsers,
  refuseManyTimes,
  type Sides,
} from './diff-times.ts';
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
  const lists = [compareLists(before.rules, after.rules), compareLists(before.upcoming ?? [], after.upcoming ?? [])];
  const decided = decideConfiguration(input);
  // Secrets are never looked up: a Configuration that is the same but for them is the same.
  const configuration = decided?.change.reason === 'unknown-secret' ? null : decided;
  const changes: readonly Change[] = [
    ...lists.flatMap((list) => decideList(list, input)),
    ...(configuration === null ? [] : [configuration.change]),
  ];
  const sides = findSides(lists);
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

/** Two lists of rules: those that are the same under their names, of these the ones with other times, and the others of either. */
interface ComparedRules {
  readonly kept: readonly (readonly [former: DesiredRule, present: DesiredRule])[];
  readonly moved: readonly DesiredRule[];
  readonly left: readonly DesiredRule[];
  readonly changed: readonly DesiredRule[];
}

function compareLists(before: readonly DesiredRule[], after: readonly DesiredRule[]): ComparedRules {
  const left = new Map(before.map((one) => [one.name, one]));
  const kept: (readonly [DesiredRule, DesiredRule])[] = [];
  const moved: DesiredRule[] = [];
  const changed: DesiredRule[] = [];
  for (const one of after) {
    const former = left.get(one.name);
    if (former === undefined || (former.rule !== one.rule && compareRules(former.rule, one.rule) !== 0)) {
      changed.push(one);
    } else {
      kept.push([former, one]);
      if (!hasSameTimes(former, one)) moved.push(former);
      left.delete(one.name);
    }
  }
  return { kept, moved, left: [...left.values()], changed };
}

function decideList({ kept, moved, left, changed }: ComparedRules, input: PlanInput): readonly RuleChange[] {
  const decided = decideRules(
    {
      ...input,
      desired: { ...input.desired, rules: changed },
      live: { ...input.live, rules: left.map(asLive) },
      base: { ...(input.base ?? input.desired), rules: left },
    },
    kept.map(([former, desired]) => ({ desired, live: asLive(former) })),
  );
  const byName = new Map([...moved, ...left].map((one) => [one.name, one]));
  return decided.map((change) => addTimes(change, byName.get(change.live?.id ?? '')));
}

/** What decides where traffic may differ: the rules that differ, and those that share addresses with one. */
function findSides(lists: readonly ComparedRules[]): Sides {
  const kept = lists.flatMap((list) => list.kept);
  const [left, changed] = [lists.flatMap((list) => list.left), lists.flatMap((list) => list.changed)];
  const moved = lists.flatMap((list) => list.moved);
  const touches = createTouches([...left, ...changed, ...moved].map(({ rule }) => rule.destination));
  const near = kept.filter(([{ rule }]) => touches(rule.destination));
  const all = [...kept.map(([former]) => former), ...left, ...changed];
  return {
    before: [...near.map(([former]) => former), ...left],
    // A rule that stays is the same object on both sides: it is not compared again.
    after: [...near.map(([{ rule }, present]) => ({ ...present, rule })), ...changed],
    users: listUsers(all),
  };
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
