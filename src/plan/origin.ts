import type { ConfigurationField, DesiredConfiguration } from '../model/configuration.ts';
import { getOrMake } from '../model/group-by.ts';
import { type DesiredRule, formatRuleKey, type LiveRule } from '../model/rule.ts';
import type { DesiredState } from '../model/state.ts';
import { compareField } from './diff-configuration.ts';
import type { Origin } from './plan.ts';

export interface RuleOriginInput {
  readonly desired: DesiredRule | null;
  readonly live: LiveRule | null;
  readonly base: BaseRules;
  /** Whether the base is known to have been applied completely: then what it asked for was there once. */
  readonly applied: boolean;
}

/**
 * Who made a rule's difference. `D`, `B`, `L`: the desired rule, whether the base asks for it, the live rule.
 *
 * | desired         | live                | origin                                                        |
 * |-----------------|---------------------|---------------------------------------------------------------|
 * | not in the base | any                 | this-revision                                                 |
 * | in the base     | none                | earlier-not-applied; drift when the base is known as applied  |
 * | in the base     | not in the base     | drift: the live rule was put in its place                     |
 * | in the base     | in the base         | this-revision: the live rule is not asked for any more        |
 * | none            | in the base         | this-revision                                                 |
 * | none            | not in the base     | drift                                                         |
 */
export function findOrigin({ desired, live, base, applied }: RuleOriginInput): Origin {
  if (desired !== null && !base.byKey.has(formatRuleKey(desired.rule))) return 'this-revision';
  if (live === null) return applied ? 'drift' : 'earlier-not-applied';
  return base.byKey.has(formatRuleKey(live.rule)) ? 'this-revision' : 'drift';
}

/** Which of the fields that differ this revision does not change against the base: they drifted. Empty without a base. */
export function findDriftedFields(
  desired: DesiredConfiguration,
  base: DesiredState | null,
  differing: readonly ConfigurationField[],
): readonly ConfigurationField[] {
  return base === null ? [] : differing.filter((field) => !changesAgainstBase(field, desired, base));
}

function changesAgainstBase(field: ConfigurationField, desired: DesiredConfiguration, base: DesiredState): boolean {
  const [wanted, before] = [desired.fields[field], base.configuration?.fields[field]];
  if (wanted === undefined || before === undefined) return true;
  const state = compareField(field, wanted, before);
  return state === 'differs' || state === 'blocked';
}

/** The rules of the state last applied, by name and by canonical key (the first name where several share a key). */
export interface BaseRules {
  /** The rules themselves: most of a new revision's are the same objects, and need no key. */
  readonly all: ReadonlySet<DesiredRule>;
  readonly byName: ReadonlyMap<string, DesiredRule>;
  readonly byKey: ReadonlyMap<string, DesiredRule>;
}

/** A base is asked for again and again: by each pass until another one is applied. */
const indexed = new WeakMap<DesiredState, BaseRules>();

export function indexBase(base: DesiredState | null): BaseRules | null {
  return base === null ? null : getOrMake(indexed, base, () => indexRules(base));
}

function indexRules(base: DesiredState): BaseRules {
  const byName = new Map<string, DesiredRule>();
  const byKey = new Map<string, DesiredRule>();
  for (const rule of base.rules) {
    byName.set(rule.name, rule);
    const key = formatRuleKey(rule.rule);
    const known = byKey.get(key);
    if (known === undefined || rule.name < known.name) byKey.set(key, rule);
  }
  return { all: new Set(base.rules), byName, byKey };
}
