import { resolve } from 'node:path';
import { type Answer, type Invocation, makeFailure } from '../command.ts';
import { readDirectoryOperand } from '../path-operand.ts';
import { readSavedPlan } from '../saved-plan.ts';
import { applyOnTrial } from '../trial.ts';

/** `reconcile plan PATH` and `reconcile PATH`: one pass, shown, perhaps asked about, perhaps applied. */
export async function run(invocation: Invocation): Promise<Answer> {
  const { plan, save } = invocation.settings;
  const operand = readDirectoryOperand(invocation, plan ? 'plan' : '');
  if (save !== null && !plan) throw makeFailure('usage', '--save goes with a plan only');
  if (!plan) refuseSnapshot(invocation);
  return applyOnTrial(invocation, { ...operand, planOnly: plan, saved: null });
}

/** `reconcile apply PATH`: one pass, shown, asked about, applied. With a saved PLAN: only what was saved. `--dry-run`: the plan. */
export async function runApply(invocation: Invocation): Promise<Answer> {
  const { operands, settings, terminal } = invocation;
  refuseSnapshot(invocation);
  const [plan = '', path] = operands;
  const saved = path === undefined ? null : readSavedPlan(resolve(terminal.cwd, plan));
  const operand = readDirectoryOperand({ ...invocation, operands: [path ?? plan] }, 'apply');
  return applyOnTrial(invocation, { ...operand, planOnly: settings.dryRun, saved });
}

function refuseSnapshot({ settings }: Invocation): void {
  if (settings.snapshot === null) return;
  throw makeFailure('usage', '--snapshot goes with a plan only', 'a snapshot can be planned against, not written to');
}
