import { existsSync } from 'node:fs';
import { misspeltCommand } from '../arguments.ts';
import type { Answer, Invocation } from '../command.ts';
import { failure } from '../failure.ts';
import { runPass } from '../pass-run.ts';
import { pathOperand } from '../path-operand.ts';

/** `reconcile --plan PATH` and `reconcile PATH`: one pass, shown, perhaps asked about, perhaps applied. */
export async function run(invocation: Invocation): Promise<Answer> {
  const { settings } = invocation;
  const operand = pathOperand(invocation, '');
  const misspelt = existsSync(operand.path) ? null : misspeltCommand(operand.written);
  if (misspelt !== null) throw misspelt;
  if (settings.save !== null && !settings.plan) throw failure('usage', '--save goes with --plan only');
  if (settings.live !== null && !settings.plan)
    throw failure('usage', '--live goes with --plan only', 'a snapshot can be planned against, not written to');
  return runPass(invocation, { ...operand, planOnly: settings.plan, saved: null });
}
