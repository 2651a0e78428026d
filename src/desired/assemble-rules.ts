import { intersects } from '../model/address.ts';
import type { Problem } from '../model/problem.ts';
import { type DesiredRule, formatRuleKey, hasTimes } from '../model/rule.ts';
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

/** The rules that may collide where those before did not: those written anew, and those that touch one with another content. */
function suspectsAmong(rules: readonly DesiredRule[], before: WrittenRules | null): readonly DesiredRule[] {
  if (before === null || rules.some(hasTimes)) return rules;
  const [known, present] = [new Set(before.rules), new Set(rules)];
  const anew = rules.filter((one) => !known.has(one));
  if (anew.length * 4 > rules.length) return rules;
  const gone = new Set(before.rules.flatMap((one) => (present.has(one) ? [] : [formatRuleKey(one.rule)])));
  const other = anew.filter(({ rule }) => !gone.has(formatRuleKey(rule)));
  const touches = ({ rule }: DesiredRule) => other.some((one) => intersects(one.rule.destination, rule.destination));
  return rules.filter((one) => !known.has(one) || touches(one));
}
