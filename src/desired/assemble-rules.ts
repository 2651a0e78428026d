import type { Problem } from '../model/problem.ts';
import { fail, ok, type Result } from '../model/result.ts';
import type { DesiredState } from '../model/state.ts';
import type { DesiredContext } from './context.ts';
import { expandManifests, findOutside } from './desired.ts';
import { findCollisionsAgain } from './in-force.ts';
import type { ParsedFiles } from './parse-files.ts';

/** The rules alone, whatever their times, and whom they name: all that a history asks for. E-mail addresses stay unresolved. */
export function assembleRules(
  { manifests }: ParsedFiles,
  context: DesiredContext,
): Result<Pick<DesiredState, 'rules' | 'userNames' | 'groups'>, Problem> {
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
