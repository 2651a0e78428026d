import { resolve } from 'node:path';
import { type Answer, type Invocation, makeFailure } from '../command.ts';
import { formatFlag, listGroup } from '../options.ts';
import { runPass } from '../pass-run.ts';
import { readDirectoryOperand } from '../path-operand.ts';
import { readSavedPlan } from '../saved-plan.ts';
import { applyOnTrial } from '../trial.ts';

/** `reconcile plan PATH`: one pass, shown. */
export async function runPlan(invocation: Invocation): Promise<Answer> {
  const operand = readDirectoryOperand(invocation, 'plan');
  const { settings } = invocation;
  // Only flags are refused: a settings file may serve applies too.
  const looking = listGroup('enforcement').find((name) => settings.origins.get(name) === formatFlag(name));
  if (settings.snapshot !== null && looking !== undefined) {
    const hint = 'plan without the snapshot to compare with the kernel, or leave the flag out';
    throw makeFailure('usage', `${formatFlag(looking)} and a plan against a snapshot exclude each other`, hint);
  }
  return runPass(invocation, { ...operand, planOnly: true, saved: null });
}

/** `reconcile apply PATH`: one pass, shown, asked about, applied. With a saved PLAN: only what was saved. `--dry-run`: the plan. */
export async function runApply(invocation: Invocation): Promise<Answer> {
  const { operands, settings, terminal } = invocation;
  if (settings.snapshot !== null) {
    throw makeFailure('usage', '--snapshot goes with a plan only', 'a snapshot can be planned against, not written to');
  }
  const [plan = '', path] = operands;
  const saved = path === undefined ? null : readSavedPlan(resolve(terminal.cwd, plan));
  const operand = readDirectoryOperand({ ...invocation, operands: [path ?? plan] }, 'apply');
  return applyOnTrial(invocation, { ...operand, planOnly: settings.dryRun, saved });
}
