import type { Place, Problem, Severity } from '../../model/problem.ts';
import type { ProblemCode } from '../../model/problem-code.ts';
import type { DesiredRule } from '../../model/rule.ts';

/** Every code of the lint with its severity; docs/lint.md has a section for each. */
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

/**
 * The findings as problems. One line of a rule set can make hundreds of rules: findings of one code at one place become
 * one problem that says how many there are.
 */
export function toProblems(findings: readonly Finding[]): readonly Problem[] {
  const groups = new Map<string, Finding[]>();
  for (const finding of findings) {
    const { file, line } = finding.place;
    const key = `${finding.code} ${finding.severity ?? ''} ${line} ${file}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [finding]);
    else group.push(finding);
  }
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
