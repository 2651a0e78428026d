import { directorySource } from '../../adapters/source/directory.ts';
import { buildDesired } from '../../desired/desired.ts';
import { applySuppressions } from '../../desired/suppress.ts';
import type { Suppression } from '../../manifest/manifest.ts';
import { compareProblems, type Problem } from '../../model/problem.ts';
import type { DesiredState } from '../../model/state.ts';
import { lint } from '../../policy/lint/lint.ts';
import { otherDocument } from '../../report/json.ts';
import { problemCounts, problemsText } from '../../report/problems.ts';
import { count } from '../../report/summary.ts';
import type { Invocation } from '../command.ts';
import { exitCodes } from '../exit-code.ts';
import { desiredContextOf, isInvalid, strictly } from '../manifests.ts';
import { emit, outputsOf, wantsColor } from '../output.ts';
import { pathOperand } from '../path-operand.ts';
import { limitsOf } from '../plan-settings.ts';

/** What the manifests below a path come to, without a server. */
export interface OfflineBuild {
  readonly state: DesiredState | null;
  readonly problems: readonly Problem[];
  readonly revision: string | null;
  readonly suppressions: readonly Suppression[];
}

/** Reads and builds the manifests below `path`; needs no server and no token. */
export async function buildOffline(invocation: Invocation, path: string): Promise<OfflineBuild> {
  const source = directorySource(path, limitsOf(invocation.settings));
  const reading = await source.read(invocation.terminal.stop);
  if (reading.content === null) return { state: null, problems: reading.problems, revision: null, suppressions: [] };
  const context = { ...desiredContextOf(invocation, path), usersByEmail: null };
  const { state, problems, suppressions } = buildDesired(reading.content.files, context);
  const found = [...reading.problems, ...problems];
  return { state, problems: found, revision: reading.content.revision, suppressions };
}

/** The build with what the lint finds in it, where the manifests have no errors. */
export function linted(built: OfflineBuild): OfflineBuild {
  if (built.state === null) return built;
  const findings = applySuppressions(lint({ desired: built.state, serverUsers: null }), built.suppressions);
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
  for (const output of outputs) {
    const color = output.file === null && wantsColor(settings, terminal, terminal.stdoutIsTerminal);
    emit(
      output,
      output.format === 'text' ? textOf({ ...built, problems }, written, color) : documentOf({ ...built, problems }),
      terminal,
    );
  }
  return invalid ? exitCodes.invalid : exitCodes.ok;
}

function textOf({ state, problems }: OfflineBuild, written: string, color: boolean): string {
  const text = problemsText(problems, color);
  const what =
    state === null
      ? ''
      : `: ${count(state.rules.length, 'rule')}${state.configuration === null ? '' : ' and the Configuration'}`;
  return `${text}${text === '' ? '' : '\n'}${written}${what}; ${problemCounts(problems)}.\n`;
}

function documentOf({ state, problems, revision }: OfflineBuild): string {
  const invalid = problems.some((problem) => problem.severity === 'error');
  const summary =
    state === null
      ? null
      : { rules: state.rules.length, configuration: state.configuration !== null, tests: state.tests.length };
  return otherDocument({ revision, valid: !invalid, summary }, problems);
}
