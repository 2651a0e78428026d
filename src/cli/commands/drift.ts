import { systemClock } from '../../adapters/clock.ts';
import type { Problem } from '../../model/problem.ts';
import type { PassResult } from '../../pass.ts';
import { reconcile } from '../../reconcile.ts';
import { driftDocument, driftHeadline, driftProblems, driftText, hasDrift } from '../../report/drift.ts';
import { otherDocument } from '../../report/json.ts';
import { problemsText } from '../../report/problems.ts';
import { reportOfProblems } from '../../report/run-report.ts';
import { readAtBase } from '../base.ts';
import type { Invocation } from '../command.ts';
import { exitCodes } from '../exit-code.ts';
import { isInvalid, strictlyKnown } from '../manifests.ts';
import { emit, type Output, outputsOf, stdoutIsTaken, wantsColor } from '../output.ts';
import { pathOperand } from '../path-operand.ts';
import { explainReadFailure } from '../read-failure.ts';
import { renderTo } from '../render.ts';
import { wirePass, wirePassOver } from '../wire.ts';

/**
 * `reconcile drift PATH`: what is different on the server from the manifests that were applied: those below PATH, or with
 * `--base REF|DIR` those. Never writes. Exit 0 without drift, 2 with.
 */
export async function run(invocation: Invocation): Promise<number> {
  const { settings, terminal } = invocation;
  const outputs = outputsOf(settings.output, terminal.cwd);
  const { path, written } = pathOperand(invocation, 'drift');
  const wired =
    settings.base === null
      ? await wirePass(invocation, path)
      : await wirePassOver(invocation, await readAtBase(invocation, path, settings.base), { root: path, base: null });
  try {
    const result = await reconcile(wired.pass, null);
    const failed =
      result.failure === null ? [] : [explainReadFailure(result.failure, wired.token.read, systemClock.wallTime())];
    const problems = [...strictlyKnown({ ...result, plan: null }, settings), ...failed];
    for (const output of outputs)
      emitOne(output, { result, problems, written, stdoutTaken: stdoutIsTaken(outputs) }, invocation);
    return exitCode(result, isInvalid(result.desired?.problems ?? [], settings));
  } finally {
    await wired.close();
  }
}

interface Finding {
  readonly result: PassResult;
  readonly problems: readonly Problem[];
  readonly written: string;
  readonly stdoutTaken: boolean;
}

function emitOne(output: Output, finding: Finding, { settings, terminal }: Invocation): void {
  const { result, problems, written, stdoutTaken } = finding;
  const color = output.file === null && wantsColor(settings, terminal, terminal.stdoutIsTerminal);
  const { plan, desired } = result;
  // Without an answer there is only what went wrong, and that belongs on stderr.
  if (output.format === 'text' && output.file === null && plan === null)
    terminal.stderr(problemsText(problems, wantsColor(settings, terminal, terminal.stderrIsTerminal)));
  else if (output.format === 'text') emit(output, textOf(result, problems, color), terminal);
  else if (output.format === 'json') emit(output, jsonOf(result, problems), terminal);
  else {
    const drifted = plan === null ? [] : driftProblems(plan, desired?.state?.userNames ?? new Map());
    const headline = plan === null ? 'reconcile drift: not known' : driftHeadline(plan);
    const report = { ...reportOfProblems([...problems, ...drifted]), root: written, headline };
    renderTo(output, report, { color, planShown: false, stdoutTaken }, terminal);
  }
}

function exitCode({ end, plan }: PassResult, invalid: boolean): number {
  if (end === 'invalid' || invalid) return exitCodes.invalid;
  if (plan === null) return exitCodes.failed;
  return hasDrift(plan) ? exitCodes.pending : exitCodes.ok;
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
