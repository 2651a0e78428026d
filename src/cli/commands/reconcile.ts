import type { Answer, Invocation } from '../command.ts';
import { makeFailure } from '../failure.ts';
import { readDirectoryOperand } from '../path-operand.ts';
import { applyOnTrial } from '../trial.ts';

/** `reconcile plan PATH` and `reconcile PATH`: one pass, shown, perhaps asked about, perhaps applied. */
export async function run(invocation: Invocation): Promise<Answer> {
  const { settings } = invocation;
  const operand = readDirectoryOperand(invocation, settings.plan ? 'plan' : '');
  if (settings.save !== null && !settings.plan) throw makeFailure('usage', '--save goes with a plan only');
  if (settings.snapshot !== null && !settings.plan)
    throw makeFailure('usage', '--snapshot goes with a plan only', 'a snapshot can be planned against, not written to');
  return applyOnTrial(invocation, { ...operand, planOnly: settings.plan, saved: null });
}
