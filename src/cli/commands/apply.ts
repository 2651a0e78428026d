import { resolve } from 'node:path';
import type { Answer, Invocation } from '../command.ts';
import { failure } from '../failure.ts';
import { runPass } from '../pass-run.ts';
import { readSavedPlan } from '../saved-plan.ts';

/** `reconcile apply PLAN PATH`: plans again, and applies only what was saved and reviewed. */
export async function run(invocation: Invocation): Promise<Answer> {
  const { operands, terminal } = invocation;
  const [plan, path] = operands;
  if (plan === undefined || path === undefined) {
    throw failure(
      'usage',
      'the saved plan or PATH is missing',
      'reconcile apply plan.json PATH; the plan comes from reconcile --plan PATH --save plan.json',
    );
  }
  const saved = readSavedPlan(resolve(terminal.cwd, plan));
  return runPass(invocation, { written: path, path: resolve(terminal.cwd, path), planOnly: false, saved });
}
