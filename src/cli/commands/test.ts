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
import type { Invocation } from '../command.ts';
import { exitCodes } from '../exit-code.ts';
import { strictly } from '../manifests.ts';
import { buildOffline } from '../offline.ts';
import { emit, outputsOf, stdoutIsTaken, wantsColor } from '../output.ts';
import { pathOperand } from '../path-operand.ts';
import { profileOf } from '../plan-settings.ts';
import { renderTo } from '../render.ts';

/** `reconcile test PATH`: the policy tests against the manifests' rules; exit 3 when one fails, 4 for invalid manifests. */
export async function run(invocation: Invocation): Promise<number> {
  const { settings, terminal } = invocation;
  const outputs = outputsOf(settings.output, terminal.cwd);
  const { path, written } = pathOperand(invocation, 'test');
  const built = await buildOffline(invocation, path);
  const problems = strictly(built.problems, settings);
  const state = hasErrors(problems) ? null : built.state;
  const results = state === null ? [] : runPolicyTests(state.tests, state.rules, profileOf(settings).ports);
  for (const output of outputs) {
    const color = output.file === null && wantsColor(settings, terminal, terminal.stdoutIsTerminal);
    if (output.format === 'text') {
      const tested = state === null ? '' : policyTestsText(results, state.userNames, color);
      emit(output, problemsText(problems, color) + tested, terminal);
    } else if (output.format === 'json') {
      emit(output, otherDocument(policyTestsMembers(results), problems), terminal);
    } else {
      const failing = policyTestProblems(results, state?.userNames ?? new Map());
      const headline = `reconcile test: ${state === null ? 'the manifests have errors' : policyTestsHeadline(results)}`;
      const report = { ...reportOfProblems([...problems, ...failing]), root: written, headline };
      renderTo(output, report, { color, planShown: false, stdoutTaken: stdoutIsTaken(outputs) }, terminal);
    }
  }
  if (state === null) return exitCodes.invalid;
  return results.some(({ failure }) => failure !== null) ? exitCodes.refused : exitCodes.ok;
}
