import { escapeControls } from '../model/printable.ts';
import type { Problem } from '../model/problem.ts';
import type { DesiredRule } from '../model/rule.ts';
import type { CaseResult } from '../policy/tests.ts';
import { describeFailure } from '../policy/words.ts';
import { makePacketDocument } from './explain.ts';
import { createPaint } from './paint.ts';
import { formatPlace } from './problems.ts';
import { formatRule, type UserNames } from './rule-text.ts';
import { count } from './summary.ts';

type Results = readonly CaseResult<DesiredRule>[];

/** The failing cases with a counterexample each, and one line that counts. */
export function renderTests(results: Results, names: UserNames, color: boolean): string {
  const paint = createPaint(color);
  const lines = listFailures(results, names).flatMap(({ place, summary, rule }) => {
    const decides = rule === null ? [] : [`    ${formatPlace(rule.place)} ${formatRule(rule.rule, names)}`];
    return [`${paint('error', '✗')} ${paint('strong', formatPlace(place))} ${escapeControls(summary)}`, ...decides];
  });
  return [...lines, `${summariseTests(results)}.`, ''].join('\n');
}

/** One line that counts. */
export function summariseTests(results: Results): string {
  const failed = results.filter(({ failure }) => failure !== null).length;
  return results.length === 0 ? 'No policy test' : `${count(results.length - failed, 'case')} passed, ${failed} failed`;
}

/** The failing cases as problems, for annotations and comments. */
export function listTestProblems(results: Results, names: UserNames): readonly Problem[] {
  return listFailures(results, names).map(({ place, summary, rule }): Problem => {
    const hint = 'Change the rules, or the test if the policy has changed.';
    const related = rule === null ? [] : [{ place: rule.place, note: `\`${rule.name}\` decides` }];
    return { code: 'policy-test-failed', severity: 'error', summary, hint, place, related };
  });
}

function listFailures(results: Results, names: UserNames) {
  return results.flatMap(({ case: one, failure }) => {
    if (failure === null) return [];
    const { rule } = failure;
    const summary = describeFailure(one, failure, { names, rule: rule === null ? null : `\`${rule.name}\`` });
    return [{ place: one.place, summary, rule }];
  });
}

/** The results as members of a JSON document. */
export function makeTestsMembers(results: Results): Readonly<Record<string, unknown>> {
  const failed = results.filter(({ failure }) => failure !== null).length;
  return {
    passed: results.length - failed,
    failed,
    cases: results.map(({ case: one, failure }) => ({
      name: one.name,
      file: one.place.file,
      line: one.place.line,
      passed: failure === null,
      ...(failure === null ? {} : { counterexample: counterexampleOf(failure) }),
    })),
  };
}

function counterexampleOf({ packet, verdict, rule, edgePortsOnly }: NonNullable<Results[number]['failure']>): unknown {
  return {
    ...makePacketDocument(packet),
    verdict,
    rule: rule === null ? null : { name: rule.name, file: rule.place.file, line: rule.place.line },
    edge_ports_only: edgePortsOnly,
  };
}
