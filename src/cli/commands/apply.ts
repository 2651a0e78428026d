import { resolve } from 'node:path';
import type { Answer, Invocation } from '../command.ts';
import { makeFailure } from '../failure.ts';
import { readDirectoryOperand } from '../path-operand.ts';
import { readSavedPlan } from '../saved-plan.ts';
import { applyOnTrial } from '../trial.ts';

/** `reconcile apply PATH`: one pass, shown, asked about, applied. With a saved PLAN: only what was saved. `--dry-run`: the plan. */
export async function run(invocation: Invocation): Promise<Answer> {
  const { operands, settings, terminal } = invocation;
  const [plan, path] = operands;
  if (settings.snapshot !== null) {
    throw makeFailure('usage', '--snapshot goes with a plan only', 'a snapshot can be planned against, not written to');
  }
  if (path === undefined) {
    const operand = readDirectoryOperand(invocation, 'apply');
    return applyOnTrial(invocation, { ...operand, planOnly: settings.dryRun, saved: null });
  }
  const saved = readSavedPlan(resolve(terminal.cwd, plan ?? ''));
  const operand = readDirectoryOperand({ ...invocation, operands: [path] }, 'apply');
  return applyOnTrial(invocation, { ...operand, planOnly: settings.dryRun, saved });
}
