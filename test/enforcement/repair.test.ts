import { describe, expect, it } from 'vitest';
import { checkEnforcement } from '../../src/enforcement/check.ts';
import type { RuleNames } from '../../src/enforcement/report.ts';
import { repairTargets } from '../../src/enforcement/report.ts';
import { formatRuleKey, type LiveRule } from '../../src/model/rule.ts';
import { recorded, tableOf } from './recorded.ts';

const { live, items } = recorded('two_rules_patched_filter_stale');

function namesOf(rules: readonly LiveRule[]): RuleNames {
  const place = { file: 'rules.yaml', line: 1, column: 1 };
  return new Map(rules.map(({ rule }) => [formatRuleKey(rule), { name: formatRuleKey(rule), place }]));
}

function targets(rules: readonly LiveRule[], names: RuleNames): readonly string[] {
  return [...repairTargets(checkEnforcement(rules, names, tableOf(items)))];
}

describe('the rule to repair next', () => {
  it('is one rule that the kernel does not hold, however many there are', () => {
    const found = targets(live, namesOf(live));
    expect(found).toHaveLength(1);
    expect(live.find(({ id }) => id === found[0])?.insertedAt).not.toBe(
      live.find(({ id }) => id === found[0])?.updatedAt,
    );
  });

  it('is never a rule that no manifest asks for', () => {
    expect(targets(live, new Map())).toEqual([]);
    const only = live.filter(({ rule }) => formatRuleKey(rule) === 'drop 10.7.0.0/16 *');
    expect(targets(live, namesOf(only))).toEqual(only.map(({ id }) => id));
  });

  it('is none when the kernel agrees', () => {
    const { live: rules, items: table } = recorded('every_kind');
    const report = checkEnforcement(rules, namesOf(rules), tableOf(table));
    expect([...repairTargets(report)]).toEqual([]);
  });
});
