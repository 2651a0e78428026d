import { type DesiredRule, formatRuleKey } from '../../model/rule.ts';
import type { DesiredState } from '../../model/state.ts';

/** The rules of the state last applied, by name and by canonical key (the first name where several share a key). */
export interface BaseRules {
  readonly byName: ReadonlyMap<string, DesiredRule>;
  readonly byKey: ReadonlyMap<string, DesiredRule>;
}

export function indexBase(base: DesiredState | null): BaseRules | null {
  if (base === null) return null;
  const byName = new Map<string, DesiredRule>();
  const byKey = new Map<string, DesiredRule>();
  for (const rule of base.rules) {
    byName.set(rule.name, rule);
    const key = formatRuleKey(rule.rule);
    const known = byKey.get(key);
    if (known === undefined || rule.name < known.name) byKey.set(key, rule);
  }
  return { byName, byKey };
}
