import { applySuppressions } from '../../manifest/suppressions.ts';
import { compareProblems, hasErrors } from '../../model/problem.ts';
import { runPolicyTests } from '../../policy/tests.ts';
import { renderDocument } from '../../report/json.ts';
import { tellTests, warnOfLaterFailures } from '../../report/policy-tests.ts';
import { renderProblems } from '../../report/problems.ts';
import { makeProblemReport } from '../../report/run-report.ts';
import { type Answer, chooseExitCode, type Invocation } from '../command.ts';
import { applyStrict, buildOperand } from '../manifests.ts';
import { readProfile } from '../plan-settings.ts';

/** `reconcile test PATH`: the policy tests against the manifests' rules; exit 3 when one fails, 4 for invalid manifests. */
export async function run(invocation: Invocation): Promise<Answer> {
  const { written, suppressions, ...built } = await buildOperand(invocation, 'test');
  const { ports } = readProfile(invocation.settings);
  const later = built.state === null ? [] : applySuppressions(warnOfLaterFailures(built.state, ports), suppressions);
  const problems = [...built.problems, ...applyStrict(later, invocation.settings)].sort(compareProblems);
  const state = hasErrors(problems) ? null : built.state;
  const results = state === null ? [] : runPolicyTests(state.tests, state.rules, ports);
  const told = tellTests(results, state ?? { tests: [], userNames: new Map() });
  return {
    exit: chooseExitCode({ invalid: state === null, refused: told.failed > 0 }),
    text: ({ color }) =>
      renderProblems([...problems, ...told.problems], color) + (state === null ? '' : `${told.headline}.\n`),
    document: () => renderDocument(told.members(), [...problems, ...told.unchecked]),
    report: () => ({
      ...makeProblemReport([...problems, ...told.problems]),
      root: written,
      headline: `reconcile test: ${state === null ? 'the manifests have errors' : told.headline}`,
    }),
  };
}
