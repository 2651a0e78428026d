import { type ConfigurationFields, configurationFields, type DesiredConfiguration } from '../model/configuration.ts';
import { groupBy } from '../model/group-by.ts';
import type { Profile } from '../model/profile.ts';
import { compareRules, type DesiredRule, type LiveRule } from '../model/rule.ts';
import type { DesiredState, Scope } from '../model/state.ts';
import { computeEffect } from '../policy/effect.ts';
import { decideRules } from './decide.ts';
import { decideConfiguration } from './decide-configuration.ts';
import { guardPlan } from './guard/guard.ts';
import type { PlanInput, PlanOptions } from './input.ts';
import { listStates, summarise } from './make-plan.ts';
import type { Change, Plan } from './plan.ts';

export interface DesiredComparison {
  readonly before: DesiredState;
  readonly after: DesiredState;
  readonly profile: Profile;
  readonly scope: Scope;
  readonly options: PlanOptions;
}

/** The changes, effect and refusals of going from one desired state to another, without steps and guards of a server. */
export function diffDesired({ before, after, profile, scope, options }: DesiredComparison): Plan {
  const rulesBefore = new Map(before.rules.map((one) => [one.name, one]));
  const sorted = groupBy(after.rules, (one) => isSame(one, rulesBefore.get(one.name)));
  const [kept, changed] = [sorted.get(true) ?? [], sorted.get(false) ?? []];
  for (const { name } of kept) rulesBefore.delete(name);
  const former = [...rulesBefore.values()];
  const input: PlanInput = {
    desired: { ...after, rules: changed },
    live: { rules: former.map(asLive), configuration: configurationOf(before.configuration) },
    base: { ...before, rules: former },
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
  const rules = decideRules(
    input,
    kept.map((one) => ({ desired: one, live: asLive(one) })),
  );
  const configuration = decideConfiguration(input);
  const changes: readonly Change[] = configuration === null ? rules : [...rules, configuration.change];
  const states = listStates(rules);
  const effect = computeEffect(states.before, states.after);
  return {
    profile: profile.name,
    ruleUpdates: 'patch',
    changes,
    steps: [],
    problems: [],
    refusals: guardPlan({ input, changes, configuration, effect, exposure: [] }),
    effect,
    exposure: [],
    summary: summarise(changes, []),
  };
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
