import { hasErrors } from '../../model/problem.ts';
import { runPolicyTests } from '../../policy/tests.ts';
import { otherDocument } from '../../report/json.ts';
import {
  policyTestProblems,
  policyTestsHeadline,
  policyTestsMembers,
  policyTestsText,
} from '../../report/policy-tests.ts';
import { problemsText } from '../../report/problems.ts';
import { reportOfProblems } from '../../report/run-report.ts';
import type { Answer, Invocation } from '../command.ts';
import { exitCodeOf } from '../exit-code.ts';
import { strictly } from '../manifests.ts';
import { buildOffline } from '../offline.ts';
import { pathOperand } from '../path-operand.ts';
import { profileOf } from '../plan-settings.ts';

/** `reconcile test PATH`: the policy tests against the manifests' rules; exit 3 when one fails, 4 for invalid manifests. */
export async function run(invocation: Invocation): Promise<Answer> {
  const { settings } = invocation;
  const { path, written } = pathOperand(invocation, 'test');
  const built = await buildOffline(invocation, path);
  const problems = strictly(built.problems, settings);
  const state = hasErrors(problems) ? null : built.state;
  const results = state === null ? [] : runPolicyTests(state.tests, state.rules, profileOf(settings).ports);
  const failing = results.some(({ failure }) => failure !== null);
  return {
    exit: exitCodeOf({ invalid: state === null, refused: failing }),
    text: ({ color }) =>
      problemsText(problems, color) + (state === null ? '' : policyTestsText(results, state.userNames, color)),
    document: () => otherDocument(policyTestsMembers(results), problems),
    report: () => ({
      ...reportOfProblems([...problems, ...policyTestProblems(results, state?.userNames ?? new Map())]),
      root: written,
      headline: `reconcile test: ${state === null ? 'the manifests have errors' : policyTestsHeadline(results)}`,
    }),
  };
}
