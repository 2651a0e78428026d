import { directorySource } from '../../adapters/source/directory.ts';
import { buildDesired, chooseManifests } from '../../desired/desired.ts';
import { printState } from '../../desired/print.ts';
import { hasErrors } from '../../model/problem.ts';
import { problemsText } from '../../report/problems.ts';
import type { Answer, Invocation } from '../command.ts';
import { exitCodes } from '../exit-code.ts';
import { Failure } from '../failure.ts';
import { desiredContextOf, strictly } from '../manifests.ts';
import { pathOperand } from '../path-operand.ts';
import { limitsOf } from '../plan-settings.ts';

/** `reconcile build PATH`: the manifests resolved (sets, names, values, overlays) and canonical; problems on stderr. */
export async function run(invocation: Invocation): Promise<Answer> {
  const { settings, terminal } = invocation;
  const { path } = pathOperand(invocation, 'build');
  const reading = await directorySource(path, limitsOf(settings)).read(terminal.stop);
  const files = reading.content?.files ?? [];
  const context = { ...desiredContextOf(invocation, path), usersByEmail: null };
  await context.parseAhead?.(files, context);
  const desired = reading.content === null ? null : buildDesired(files, context);
  const found = [...reading.problems, ...(desired?.problems ?? [])];
  const problems = strictly(found, settings);
  if (hasErrors(problems) || desired === null || desired.state === null) throw new Failure(problems, exitCodes.invalid);
  const configuration = chooseManifests(files, context).find((one) => one.kind === 'Configuration') ?? null;
  for (const piece of printState({ state: desired.state, configuration })) {
    terminal.stdout(piece);
    await terminal.stdoutTaken?.();
  }
  return { exit: exitCodes.ok, notes: (color) => problemsText(problems, color) };
}
