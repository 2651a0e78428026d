import { statSync } from 'node:fs';
import { findEndingSoon } from '../../desired/in-force.ts';
import { applySuppressions } from '../../manifest/suppressions.ts';
import { countMs } from '../../model/instant.ts';
import { compareProblems, hasErrors } from '../../model/problem.ts';
import { lint } from '../../policy/lint/lint.ts';
import { renderDocument } from '../../report/json.ts';
import { warnOfLaterFailures } from '../../report/policy-tests.ts';
import { formatProblemCounts, renderProblems } from '../../report/problems.ts';
import { makeProblemReport } from '../../report/run-report.ts';
import { count } from '../../report/summary.ts';
import { type Answer, chooseExitCode, type Invocation } from '../command.ts';
import { applyStrict, buildFiles, buildOffline } from '../manifests.ts';
import { readManifestFiles, readPathOperand } from '../path-operand.ts';
import { readProfile } from '../plan-settings.ts';

/** `reconcile validate PATH…`: every problem of the manifests and what the lint finds; exit 4 when one is an error. */
export async function run(invocation: Invocation): Promise<Answer> {
  const { settings } = invocation;
  const { written, root, state, suppressions, revision, ...built } = await build(invocation);
  const within = settings.within === null ? null : countMs(settings.within);
  const ending = state === null || within === null ? [] : findEndingSoon(state, within);
  const later = state === null ? [] : warnOfLaterFailures(state, readProfile(settings).ports);
  const findings = state === null ? [] : applySuppressions([...lint(state), ...later, ...ending], suppressions);
  const found = state === null ? built.problems : [...built.problems, ...findings].sort(compareProblems);
  const problems = applyStrict(found, settings);
  const also = state?.configuration ? ' and the Configuration' : '';
  const what = state === null ? '' : `: ${count(state.rules.length, 'rule')}${also}`;
  const headline = `${written}${what}; ${formatProblemCounts(problems)}`;
  return {
    exit: chooseExitCode({ invalid: hasErrors(problems) }),
    text: ({ color }) => {
      const text = renderProblems(problems, color);
      return `${text}${text === '' ? '' : '\n'}${headline}.\n`;
    },
    document: () => {
      const { rules, configuration, tests } = state ?? { rules: [], configuration: null, tests: [] };
      const summary = { rules: rules.length, configuration: configuration !== null, tests: tests.length };
      return renderDocument({ revision, valid: !hasErrors(problems), summary: state && summary }, problems);
    },
    report: () => ({ ...makeProblemReport(problems), root, headline: `reconcile validate: ${headline}` }),
  };
}

/** The directory, or single files (`-`: stdin) without those beside them. `root`: what places are relative to; null for files. */
async function build(invocation: Invocation) {
  const { operands, terminal } = invocation;
  const { path, written } = readPathOperand(invocation, 'validate');
  const isFile = written === '-' || statSync(path, { throwIfNoEntry: false })?.isFile() === true;
  if (operands.length === 1 && !isFile) return { ...(await buildOffline(invocation, path)), written, root: written };
  const files = await readManifestFiles(invocation);
  return { ...(await buildFiles(invocation, files, terminal.cwd)), written: operands.join(' '), root: null };
}
