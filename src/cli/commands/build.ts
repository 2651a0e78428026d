import { printState } from '../../desired/print.ts';
import { hasErrors } from '../../model/problem.ts';
import { renderProblems } from '../../report/problems.ts';
import { type Answer, exitCodes, Failure, type Invocation } from '../command.ts';
import { applyStrict } from '../manifests.ts';
import { buildOffline } from '../offline.ts';
import { readPathOperand } from '../path-operand.ts';

/** `reconcile build PATH`: the manifests resolved (sets, names, values, overlays) and canonical; problems on stderr. */
export async function run(invocation: Invocation): Promise<Answer> {
  const { settings, terminal } = invocation;
  const { path } = readPathOperand(invocation, 'build');
  const { state, manifests, ...built } = await buildOffline(invocation, path);
  const problems = applyStrict(built.problems, settings);
  if (hasErrors(problems) || state === null) throw new Failure(problems, exitCodes.invalid);
  const configuration = manifests.find((one) => one.kind === 'Configuration') ?? null;
  for (const piece of printState({ state, configuration })) {
    terminal.stdout(piece);
    await terminal.stdoutTaken?.();
  }
  return { exit: exitCodes.ok, notes: (color) => renderProblems(problems, color) };
}
