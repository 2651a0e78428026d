import { compareProblems, type Problem } from '../../model/problem.ts';
import type { DesiredState } from '../../model/state.ts';
import { indexRules } from '../rule-index.ts';
import { configurationFindings } from './configuration-findings.ts';
import { familyFindings } from './family-findings.ts';
import { problemsOf } from './finding.ts';
import { leadersOf } from './leaders.ts';
import type { Linted } from './linted.ts';
import { protocolFindings } from './protocol-findings.ts';
import { rankingOf } from './ranking.ts';
import { standingFindings } from './standing-findings.ts';
import { userFindings } from './user-findings.ts';

/**
 * Findings about manifests without errors that mean something else than they seem to: sorted, each with a code, a hint and a
 * section in docs/lint.md. Comments that switch findings off are honoured by the caller (`applySuppressions`).
 */
export function lint(desired: DesiredState): readonly Problem[] {
  const { rules } = desired;
  const index = indexRules(rules);
  const ranking = rankingOf(index);
  const linted: Linted = { desired, rules, index, ranking, leaders: leadersOf(index, ranking) };
  const findings = [
    ...standingFindings(linted),
    ...familyFindings(linted),
    ...protocolFindings(linted),
    ...userFindings(linted),
    ...configurationFindings(linted),
  ];
  return [...problemsOf(findings)].sort(compareProblems);
}
