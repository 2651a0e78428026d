import { systemClock } from '../../adapters/clock.ts';
import type { Problem } from '../../model/problem.ts';
import type { PassResult } from '../../pass.ts';
import { reconcile } from '../../reconcile.ts';
import { driftDocument, driftText } from '../../report/drift.ts';
import { otherDocument } from '../../report/json.ts';
import { problemsText } from '../../report/problems.ts';
import { readAtBase } from '../base.ts';
import type { Invocation } from '../command.ts';
import { exitCodes } from '../exit-code.ts';
import { isInvalid, strictly } from '../manifests.ts';
import { emit, outputsOf, wantsColor } from '../output.ts';
import { pathOperand } from '../path-operand.ts';
import { explainReadFailure } from '../read-failure.ts';
import { wirePass, wirePassOver } from '../wire.ts';

/**
 * `reconcile drift PATH`: what is different on the server from the manifests that were applied: those below PATH, or with
 * `--base REF|DIR` those. Never writes. Exit 0 without drift, 2 with.
 */
export async function run(invocation: Invocation): Promise<number> {
  const { settings, terminal } = invocation;
  const outputs = outputsOf(settings.output, terminal.cwd);
  const { path } = pathOperand(invocation, 'drift');
  const wired =
    settings.base === null
      ? await wirePass(invocation, path)
      : await wirePassOver(invocation, await readAtBase(invocation, path, settings.base), { root: path, base: null });
  try {
    const result = await reconcile(wired.pass, null);
    const failed =
      result.failure === null ? [] : [explainReadFailure(result.failure, wired.token.read, systemClock.wallTime())];
    const problems = [...strictly(result.problems, settings), ...failed];
    for (const output of outputs) {
      const color = output.file === null && wantsColor(settings, terminal, terminal.stdoutIsTerminal);
      const text = output.format === 'json' ? jsonOf(result, problems) : textOf(result, problems, color);
      emit(output, text, terminal);
    }
    return exitCode(result, isInvalid(result.desired?.problems ?? [], settings));
  } finally {
    await wired.close();
  }
}

function exitCode({ end, plan }: PassResult, invalid: boolean): number {
  if (end === 'invalid' || invalid) return exitCodes.invalid;
  if (plan === null) return exitCodes.failed;
  return plan.steps.length === 0 ? exitCodes.ok : exitCodes.pending;
}

function jsonOf({ plan, content }: PassResult, problems: readonly Problem[]): string {
  const drift = plan === null ? null : driftDocument(plan);
  return otherDocument(
    { revision: content?.revision ?? null, in_sync: drift === null ? null : drift.length === 0, drift: drift ?? [] },
    problems,
  );
}

function textOf({ plan, desired }: PassResult, problems: readonly Problem[], color: boolean): string {
  const text = plan === null ? '' : driftText(plan, desired?.state?.userNames ?? new Map(), color);
  return `${problemsText(problems, color)}${text}`;
}
