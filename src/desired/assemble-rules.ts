import type { Problem } from '../model/problem.ts';
import type { DesiredRule } from '../model/rule.ts';
import type { DesiredContext } from './context.ts';
import { expandManifests, findOutside } from './desired.ts';
import { findCollisionsFrom, suspectsAmong } from './in-force.ts';
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
    ...findCollisionsFrom(suspectsAmong(rules, before?.rules), context.now, context.profile.refusesCollisions),
    ...findOutside({ rules, configuration: null, manifests: layered.manifests }, context),
  ];
  const fault = all.find(({ severity }) => severity === 'error') ?? null;
  return { rules, userNames: names.userNames, groups: names.groups, fault };
}
