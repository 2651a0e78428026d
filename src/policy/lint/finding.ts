import { groupBy } from '../../model/group-by.ts';
import type { Place, Problem, Severity } from '../../model/problem.ts';
import type { ProblemCode } from '../../model/problem-code.ts';
import type { DesiredRule } from '../../model/rule.ts';
import type { DesiredState } from '../../model/state.ts';
import type { RuleIndex } from '../rule-index.ts';
import type { Leaders, Ranking } from './leaders.ts';

/** Every code of the lint with its severity; docs/reference/lint.md has a section for each. */
export const lintSeverities = {
  'never-decides': 'warning',
  'drop-under-accept': 'warning',
  'changes-nothing': 'warning',
  'nothing-dropped': 'warning',
  'ipv6-left-open': 'warning',
  'ipv4-left-open': 'warning',
  'ipv4-mapped': 'warning',
  'icmp-left-open': 'note',
  'transport-left-open': 'note',
  'user-exempt': 'note',
  'unlisted-user': 'note',
  'unknown-user-id': 'error',
  'no-sign-in': 'warning',
  'unrouted-destination': 'warning',
  'dns-server-closed': 'warning',
  'dns-server-unrouted': 'warning',
} as const satisfies Readonly<Partial<Record<ProblemCode, Severity>>>;

type LintCode = keyof typeof lintSeverities;

/** What a check says of one place, before it becomes a problem. */
export interface Finding {
  readonly code: LintCode;
  readonly place: Place;
  /** One sentence. */
  readonly summary: string;
  readonly hint: string;
  readonly related?: readonly { readonly place: Place; readonly note: string }[];
  /** Where what is found may well be meant. */
  readonly severity?: 'note';
}

/** The rule's name as problems show it. */
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
  readonly ranking: Ranking<DesiredRule>;
  readonly leaders: Leaders<DesiredRule>;
}
