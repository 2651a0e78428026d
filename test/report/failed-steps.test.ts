import { describe, expect, it } from 'vitest';
import type { ApplyReport, Outcome } from '../../src/apply/outcome.ts';
import type { Problem } from '../../src/model/problem.ts';
import { makePlan } from '../../src/plan/make-plan.ts';
import { addFailedSteps } from '../../src/report/failed-steps.ts';
import { renderGithub } from '../../src/report/github.ts';
import { renderMarkdown } from '../../src/report/markdown.ts';
import { makeProblemReport, type RunReport } from '../../src/report/run-report.ts';
import { renderApply } from '../../src/report/text.ts';
import { desiredRules, planInput } from '../plan/support.ts';

const plan = makePlan(planInput({ desired: desiredRules('drop 10.0.0.0/8', 'drop 11.0.0.0/8', 'drop 12.0.0.0/8') }));
const ended = (index: number, rest: Omit<Outcome, 'step'>): Outcome => {
  const step = plan.steps[index];
  if (step === undefined) throw new Error('no such step');
  return { step, ...rest };
};

function reportOf(end: ApplyReport['end'], outcomes: readonly Outcome[], problems: readonly Problem[] = []): RunReport {
  const apply: ApplyReport = {
    end,
    outcomes,
    problems,
    leftOpen: [],
    notConverged: [],
    wrote: true,
    durationMs: 1,
    enforcedInMs: null,
  };
  return { ...makeProblemReport(problems), plan, apply };
}

describe('steps that failed, as problems for machines', () => {
  it('have a code by what the server answered, and the place of their manifest, in the order of the plan', () => {
    const report = reportOf('failed', [
      ended(2, { outcome: 'unknown', status: null, message: 'POST /v0/rules: the connection broke' }),
      ended(1, { outcome: 'failed', status: 422, message: 'POST /v0/rules: 422, destination is invalid' }),
      ended(0, { outcome: 'failed', status: 403, message: 'POST /v0/rules: 403, this token may not do this' }),
    ]);
    const found = addFailedSteps(report);
    expect(found.map(({ code, severity, place }) => [code, severity, place?.line])).toEqual([
      ['step-forbidden', 'error', 1],
      ['step-rejected', 'error', 2],
      ['step-unknown', 'error', 3],
    ]);
    expect(found[1]?.summary).toBe('s2 create drop 11.0.0.0/8: POST /v0/rules: 422, destination is invalid');
    expect(renderGithub(report)).toContain('::error file=rules.yaml,line=2,col=1,title=step-rejected::s2 create drop');
    expect(renderApply(report, { color: false })).toContain(
      'rules.yaml:2:1 error [step-rejected] s2 create drop 11.0.0.0/8: POST',
    );
    expect(renderMarkdown(report)).toContain(
      '- **error** `rules.yaml:2:1` s2 create drop 11.0.0.0/8: POST /v0/rules: 422',
    );
  });

  it('are left out where a problem says the same, where they were only dropped, and where all converged after all', () => {
    const message = 'the server dropped the ports';
    const told: Problem = { code: 'ports-dropped', severity: 'error', summary: message };
    const failed = ended(0, { outcome: 'failed', status: 201, message });
    const dropped = ended(1, { outcome: 'dropped', status: null, message: 'not attempted' });
    expect(addFailedSteps(reportOf('failed', [failed, dropped], [told]))).toEqual([told]);
    expect(addFailedSteps(reportOf('converged', [failed]))).toEqual([]);
    expect(addFailedSteps(reportOf('not-converged', [failed])).map(({ code }) => code)).toEqual(['step-failed']);
  });
});
