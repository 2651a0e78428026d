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

/** How policy tests ended, in every format: each failing case with a packet that shows it. */
export function tellTests(results: Results, names: UserNames) {
  const failures = results.flatMap(({ case: one, failure }) => {
    if (failure === null) return [];
    const { rule } = failure;
    const summary = describeFailure(one, failure, { names, rule: rule && `\`${rule.name}\`` });
    return [{ place: one.place, summary, rule }];
  });
  const failed = failures.length;
  const passed = results.length - failed;
  const headline = results.length === 0 ? 'No policy test' : `${count(passed, 'case')} passed, ${failed} failed`;
  return {
    ...{ passed, failed, headline },
    text(color: boolean): string {
      const paint = createPaint(color);
      const lines = failures.flatMap(({ place, summary, rule }) => {
        const decides = rule === null ? [] : [`    ${formatPlace(rule.place)} ${formatRule(rule.rule, names)}`];
        return [`${paint('error', '✗')} ${paint('strong', formatPlace(place))} ${escapeControls(summary)}`, ...decides];
      });
      return [...lines, `${headline}.`, ''].join('\n');
    },
    problems: failures.map(({ place, summary, rule }): Problem => {
      const hint = 'Change the rules, or the test if the policy has changed.';
      const related = rule === null ? [] : [{ place: rule.place, note: `\`${rule.name}\` decides` }];
      return { code: 'policy-test-failed', severity: 'error', summary, hint, place, related };
    }),
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

function counterexampleOf({ packet, verdict, rule, edgePortsOnly }: NonNullable<Results[number]['failure']>): unknown {
  return {
    ...makePacketDocument(packet),
    verdict,
    rule: rule === null ? null : { name: rule.name, file: rule.place.file, line: rule.place.line },
    edge_ports_only: edgePortsOnly,
  };
}
