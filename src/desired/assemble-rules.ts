import { intersects } from '../model/address.ts';
import type { Problem } from '../model/problem.ts';
import { type DesiredRule, hasTimes } from '../model/rule.ts';
import type { DesiredContext } from './context.ts';
import { expandManifests, findOutside } from './desired.ts';
import { findCollisionsFrom } from './in-force.ts';
import type { Names } from './names.ts';
import type { ParsedFiles } from './parse-files.ts';

/** The rules of manifests whatever their times, and the first error that makes them unusable. */
export interface WrittenRules extends Pick<Names, 'userNames' | 'groups'> {
  readonly rules: readonly DesiredRule[];
  readonly fault: Problem | null;
}

/** The rules alone, e-mail addresses unresolved: all that a history asks for. `before`: rules without a fault, not checked again. */
export function assembleRules(
  { manifests }: ParsedFiles,
  context: DesiredContext,
  before: WrittenRules | null,
): WrittenRules {
  const { layered, names, rules, problems } = expandManifests(manifests, null, context);
  const all = [
    ...problems,
    ...names.problems,
    ...findCollisionsFrom(suspectsAmong(rules, before), context.now, context.profile.refusesCollisions),
    ...findOutside({ rules, configuration: null, manifests: layered.manifests }, context),
  ];
  const fault = all.find(({ severity }) => severity === 'error') ?? null;
  return { rules, userNames: names.userNames, groups: names.groups, fault };
}

/** The rules that may collide where those before did not: new ones, and those that they touch. */
function suspectsAmong(rules: readonly DesiredRule[], before: WrittenRules | null): readonly DesiredRule[] {
  if (before === null || rules.some(hasTimes)) return rules;
  const known = new Set(before.rules);
  const fresh = rules.filter((one) => !known.has(one));
  if (fresh.length * 10 > rules.length) return rules;
  return rules.filter(({ rule }) => fresh.some((one) => intersects(one.rule.destination, rule.destination)));
}
