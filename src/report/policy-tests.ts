import { formatInstant } from '../model/instant.ts';
import type { PortRange } from '../model/port-range.ts';
import { makeNote, type Problem } from '../model/problem.ts';
import type { DesiredRule } from '../model/rule.ts';
import type { DesiredState } from '../model/state.ts';
import { type CaseResult, findLaterFailures, tellUnchecked } from '../policy/tests.ts';
import { describeFailure, formatRule } from '../policy/words.ts';
import { makePacketDocument } from './explain.ts';
import { count } from './summary.ts';

type Results = readonly CaseResult<DesiredRule>[];

/** How policy tests ended, in every format: each failing case with a packet that shows it. */
export function tellTests(results: Results, { tests, userNames: names }: Pick<DesiredState, 'tests' | 'userNames'>) {
  const failing = results.flatMap(({ case: one, failure }): Problem[] => {
    if (failure === null) return [];
    const { rule } = failure;
    const summary = describeFailure(one, failure, { names, rule: rule && `\`${rule.name}\`` });
    const hint = 'Change the rules, or the test if the policy has changed.';
    const related =
      rule === null ? [] : [{ place: rule.place, note: `\`${rule.name}\` decides: ${formatRule(rule.rule, names)}` }];
    return [{ code: 'policy-test-failed', severity: 'error', summary, hint, place: one.place, related }];
  });
  const unchecked = tellUnchecked(results, tests);
  const passed = results.length - failing.length;
  const failed = tests.length - passed;
  const left = unchecked.length === 0 ? '' : ' or were not run';
  const headline = tests.length === 0 ? 'No policy test' : `${count(passed, 'case')} passed, ${failed} failed${left}`;
  return {
    ...{ passed, failed, headline, unchecked, problems: [...failing, ...unchecked] },
    members: () => ({
      passed,
      failed,
      cases: results.map(({ case: { name, place }, failure }) => ({
        name,
        file: place.file,
        line: place.line,
        passed: failure === null,
        ...(failure === null ? {} : { counterexample: counterexampleOf(failure) }),
      })),
    }),
  };
}

/** Warns of cases that hold now and fail from a known time on, at which every plan would begin to be refused. */
export function warnOfLaterFailures(state: DesiredState, bounds: PortRange): readonly Problem[] {
  const { failures, until } = findLaterFailures(state, bounds);
  const warnings = failures.flatMap(({ turn: { rule, what, at }, ...failing }) => {
    const way = `${what === 'ends' ? 'extend' : 'change'} it, or write \`at:\` with a time before that in the case`;
    const hint = `\`${rule.name}\` ${what} then: ${way}.`;
    const told = { code: 'policy-test-fails-later', severity: 'warning', hint } as const;
    const { problems } = tellTests([failing], { ...state, tests: [failing.case] });
    return problems.map(
      (one): Problem => ({ ...one, ...told, summary: `From ${formatInstant(at)} on: ${one.summary}` }),
    );
  });
  if (until === null) return warnings;
  const summary = `Policy tests were not run for the times from ${formatInstant(until)} on: they take too long.`;
  const hint = 'Let rules begin and end on the same days, or write fewer cases with `user: any`.';
  return [...warnings, makeNote('too-many-times', summary, hint)];
}

function counterexampleOf({ packet, verdict, rule, edgePortsOnly }: NonNullable<Results[number]['failure']>): unknown {
  return {
    ...makePacketDocument(packet),
    verdict,
    rule: rule === null ? null : { name: rule.name, file: rule.place.file, line: rule.place.line },
    edge_ports_only: edgePortsOnly,
  };
}
