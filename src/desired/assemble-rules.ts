import type { FileManifests } from '../manifest/manifest.ts';
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
  readonly files: readonly FileManifests[];
  readonly fault: Problem | null;
}

/**
 * The rules alone, e-mail addresses unresolved: all that a history asks for. `before`: rules without a fault; what is as it was
 * there is not checked again.
 */
export function assembleRules(
  { manifests }: ParsedFiles,
  context: DesiredContext,
  before: WrittenRules | null,
): WrittenRules {
  const { layered, names, rules, problems } = expandManifests(manifests, null, context);
  const written = { rules, files: manifests, userNames: names.userNames, groups: names.groups };
  const all = [
    ...problems,
    ...names.problems,
    ...findCollisionsFrom(
      suspectsAmong(written, context.overlay == null ? before : null),
      context.now,
      context.profile.refusesCollisions,
    ),
    ...findOutside({ rules, configuration: null, manifests: layered.manifests }, context),
  ];
  return { ...written, fault: all.find(({ severity }) => severity === 'error') ?? null };
}

/** The rules that may collide where those before did not: the ones of changed files, and those that they touch. */
function suspectsAmong(
  { rules, files }: Pick<WrittenRules, 'rules' | 'files'>,
  before: WrittenRules | null,
): readonly DesiredRule[] {
  const [known, present] = [new Set(before?.files), new Set(files)];
  const changed = [...files, ...known].filter((file) => !known.has(file) || !present.has(file));
  const mayChangeOthers = changed.some((file) =>
    file.manifests.some(({ kind }) => kind !== 'Rule' && kind !== 'RuleSet'),
  );
  if (before === null || mayChangeOthers || rules.some(hasTimes)) return rules;
  const paths = new Set(changed.map(({ path }) => path));
  const old = new Set(before.rules.flatMap(({ place, rule }) => (paths.has(place.file) ? [formatRuleKey(rule)] : [])));
  const fresh = rules.filter(({ place, rule }) => paths.has(place.file) && !old.has(formatRuleKey(rule)));
  if (fresh.length * 10 > rules.length) return rules;
  return rules.filter(
    ({ place, rule }) =>
      paths.has(place.file) || fresh.some((one) => intersects(one.rule.destination, rule.destination)),
  );
}
