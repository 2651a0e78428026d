import { groupBy } from '../../model/group-by.ts';
import type { Place, Problem } from '../../model/problem.ts';
import { type LintCode, lintSeverities } from '../../model/problem-code.ts';
import type { DesiredRule } from '../../model/rule.ts';
import type { DesiredState } from '../../model/state.ts';
import type { RuleIndex } from '../rule-index.ts';
import type { Leaders } from './leaders.ts';

/** What a check says of one place, before its code gives it a severity. */
export interface Finding extends Omit<Problem, 'severity'> {
  readonly code: LintCode;
  readonly place: Place;
  readonly hint: string;
  /** Where what is found may well be meant. */
  readonly severity?: 'note';
}

export function quoteName({ name }: DesiredRule): string {
  return `\`${name}\``;
}

/** The findings as problems; those of one code at one line become one problem that says how many rules it holds for. */
export function toProblems(findings: readonly Finding[]): readonly Problem[] {
  const keyOf = ({ code, severity, place: { file, line } }: Finding): string =>
    `${code} ${severity ?? ''} ${line} ${file}`;
  const groups = groupBy(findings, keyOf);
  return [...groups.values()].flatMap(([first, ...others]) =>
    first === undefined ? [] : [problemOf(first, others.length)],
  );
}

function problemOf({ code, place, summary, hint, related, severity }: Finding, others: number): Problem {
  const more =
    others === 0 ? '' : ` The same holds for ${others} more ${others === 1 ? 'rule' : 'rules'} of this line.`;
  const base = { code, severity: severity ?? lintSeverities[code], summary: `${summary}${more}`, hint, place };
  return related === undefined || related.length === 0 ? base : { ...base, related };
}

export interface Linted {
  readonly desired: DesiredState;
  readonly rules: readonly DesiredRule[];
  readonly index: RuleIndex<DesiredRule>;
  readonly leaders: Leaders<DesiredRule>;
}
