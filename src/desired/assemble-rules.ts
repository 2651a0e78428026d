import type { Problem } from '../model/problem.ts';
import { fail, ok, type Result } from '../model/result.ts';
import type { DesiredRule } from '../model/rule.ts';
import type { DesiredContext } from './context.ts';
import { expandManifests, findOutside } from './desired.ts';
import { findCollisionsAgain } from './in-force.ts';
import type { Names } from './names.ts';
import type { ParsedFiles } from './parse-files.ts';

/** The rules of manifests whatever their times, and whom they name. */
export interface WrittenRules extends Pick<Names, 'userNames' | 'groups'> {
  readonly rules: readonly DesiredRule[];
}

/** The rules alone, e-mail addresses unresolved: all that a history asks for. Fails with the first error that makes them unusable. */
export function assembleRules({ manifests }: ParsedFiles, context: DesiredContext): Result<WrittenRules, Problem> {
  const { layered, names, rules, problems } = expandManifests(manifests, null, context);
  const all = [
    ...problems,
    ...names.problems,
    ...findCollisionsAgain(rules, context),
    ...findOutside({ rules, configuration: null, manifests: layered.manifests }, context),
  ];
  const fault = all.find(({ severity }) => severity === 'error');
  return fault === undefined ? ok({ rules, userNames: names.userNames, groups: names.groups }) : fail(fault);
}
