import { hasErrors } from '../../model/problem.ts';
import { runPolicyTests } from '../../policy/tests.ts';
import { renderDocument } from '../../report/json.ts';
import { listTestProblems, makeTestsMembers, renderTests, summariseTests } from '../../report/policy-tests.ts';
import { renderProblems } from '../../report/problems.ts';
import { makeProblemReport } from '../../report/run-report.ts';
import { type Answer, chooseExitCode, type Invocation } from '../command.ts';
import { applyStrict } from '../manifests.ts';
import { buildOffline } from '../offline.ts';
import { readPathOperand } from '../path-operand.ts';
import { readProfile } from '../plan-settings.ts';

/** `reconcile test PATH`: the policy tests against the manifests' rules; exit 3 when one fails, 4 for invalid manifests. */
export async function run(invocation: Invocation): Promise<Answer> {
  const { settings } = invocation;
  const { path, written } = readPathOperand(invocation, 'test');
  const built = await buildOffline(invocation, path);
  const problems = applyStrict(built.problems, settings);
  const state = hasErrors(problems) ? null : built.state;
  const results = state === null ? [] : runPolicyTests(state.tests, state.rules, readProfile(settings).ports);
  const failing = results.some(({ failure }) => failure !== null);
  return {
    exit: chooseExitCode({ invalid: state === null, refused: failing }),
    text: ({ color }) =>
      renderProblems(problems, color) + (state === null ? '' : renderTests(results, state.userNames, color)),
    document: () => renderDocument(makeTestsMembers(results), problems),
    report: () => ({
      ...makeProblemReport([...problems, ...listTestProblems(results, state?.userNames ?? new Map())]),
      root: written,
      headline: `reconcile test: ${state === null ? 'the manifests have errors' : summariseTests(results)}`,
    }),
  };
}
