import { compareProblems, type Problem } from '../../model/problem.ts';
import type { DesiredState } from '../../model/state.ts';
import { indexRules } from '../rule-index.ts';
import { lintConfiguration } from './configuration-findings.ts';
import { lintFamilies } from './family-findings.ts';
import { type Linted, toProblems } from './finding.ts';
import { findLeaders, rankRules } from './leaders.ts';
import { lintProtocols } from './protocol-findings.ts';
import { lintRuleReach } from './rule-reach-findings.ts';
import { lintUsers } from './user-findings.ts';

/** Findings about manifests without errors that mean something else than they seem to, sorted (docs/reference/lint.md). */
export function lint(desired: DesiredState): readonly Problem[] {
  const { rules } = desired;
  const index = indexRules(rules);
  const ranking = rankRules(index);
  const linted: Linted = { desired, rules, index, ranking, leaders: findLeaders(index, ranking) };
  const findings = [
    ...lintRuleReach(linted),
    ...lintFamilies(linted),
    ...lintProtocols(linted),
    ...lintUsers(linted),
    ...lintConfiguration(linted),
  ];
  return [...toProblems(findings)].sort(compareProblems);
}
