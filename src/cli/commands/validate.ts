import { applySuppressions } from '../../desired/suppress.ts';
import { compareProblems } from '../../model/problem.ts';
import { lint } from '../../policy/lint/lint.ts';
import { otherDocument } from '../../report/json.ts';
import { problemCounts, problemsText } from '../../report/problems.ts';
import { reportOfProblems } from '../../report/run-report.ts';
import { count } from '../../report/summary.ts';
import type { Invocation } from '../command.ts';
import { exitCodes } from '../exit-code.ts';
import { isInvalid, strictly } from '../manifests.ts';
import { buildOffline, type OfflineBuild } from '../offline.ts';
import { emit, type Output, outputsOf, stdoutIsTaken, wantsColor } from '../output.ts';
import { pathOperand } from '../path-operand.ts';
import { renderTo } from '../render.ts';

/** The build with what the lint finds in it, where the manifests have no errors. */
export function linted(built: OfflineBuild): OfflineBuild {
  if (built.state === null) return built;
  const findings = applySuppressions(lint(built.state), built.suppressions);
  return { ...built, problems: [...built.problems, ...findings].sort(compareProblems) };
}

/** `reconcile validate PATH`: every problem of the manifests and what the lint finds; exit 4 when one is an error. */
export async function run(invocation: Invocation): Promise<number> {
  const { settings, terminal } = invocation;
  const outputs = outputsOf(settings.output, terminal.cwd);
  const { path, written } = pathOperand(invocation, 'validate');
  const built = linted(await buildOffline(invocation, path));
  const problems = strictly(built.problems, settings);
  const invalid = isInvalid(built.problems, settings);
  const found = { ...built, problems };
  for (const output of outputs) emitOne(output, found, invocation, { written, stdoutTaken: stdoutIsTaken(outputs) });
  return invalid ? exitCodes.invalid : exitCodes.ok;
}

interface Shown {
  /** PATH as it was written. */
  readonly written: string;
  readonly stdoutTaken: boolean;
}

function emitOne(
  output: Output,
  built: OfflineBuild,
  { settings, terminal }: Invocation,
  { written, stdoutTaken }: Shown,
): void {
  const color = output.file === null && wantsColor(settings, terminal, terminal.stdoutIsTerminal);
  if (output.format === 'text') emit(output, textOf(built, written, color), terminal);
  else if (output.format === 'json') emit(output, documentOf(built), terminal);
  else {
    const headline = `reconcile validate: ${headlineOf(built, written)}`;
    const report = { ...reportOfProblems(built.problems), root: written, headline };
    renderTo(output, report, { color, planShown: false, stdoutTaken }, terminal);
  }
}

function textOf(built: OfflineBuild, written: string, color: boolean): string {
  const text = problemsText(built.problems, color);
  return `${text}${text === '' ? '' : '\n'}${headlineOf(built, written)}.\n`;
}

function headlineOf({ state, problems }: OfflineBuild, written: string): string {
  const what =
    state === null
      ? ''
      : `: ${count(state.rules.length, 'rule')}${state.configuration === null ? '' : ' and the Configuration'}`;
  return `${written}${what}; ${problemCounts(problems)}`;
}

function documentOf({ state, problems, content }: OfflineBuild): string {
  const invalid = problems.some((problem) => problem.severity === 'error');
  const summary =
    state === null
      ? null
      : { rules: state.rules.length, configuration: state.configuration !== null, tests: state.tests.length };
  return otherDocument({ revision: content.revision, valid: !invalid, summary }, problems);
}
