import { printState } from '../../desired/print.ts';
import { hasErrors } from '../../model/problem.ts';
import { renderProblems } from '../../report/problems.ts';
import { type Answer, exitCodes, Failure, type Invocation } from '../command.ts';
import { buildOperand } from '../manifests.ts';

/** `reconcile build PATH`: the manifests resolved (sets, names, values, overlays) and canonical; problems on stderr. */
export async function run(invocation: Invocation): Promise<Answer> {
  const { terminal } = invocation;
  const { state, manifests, problems } = await buildOperand(invocation, 'build');
  if (hasErrors(problems) || state === null) throw new Failure(problems, exitCodes.invalid);
  const configuration = manifests.find((one) => one.kind === 'Configuration') ?? null;
  for (const piece of printState(state, configuration)) {
    terminal.stdout(piece);
    await terminal.stdoutTaken?.();
  }
  return { notes: (color) => renderProblems(problems, color) };
}
