import { makeError, type Problem } from '../../model/problem.ts';
import type { PassResult } from '../../pass/pass.ts';
import { tellDrift } from '../../report/drift.ts';
import { renderDocument } from '../../report/json.ts';
import { renderProblems } from '../../report/problems.ts';
import { makeProblemReport } from '../../report/run-report.ts';
import { findServer } from '../approval.ts';
import { readAtBase } from '../base.ts';
import { type Answer, chooseExitCode, type Invocation } from '../command.ts';
import { applyStrict, applyStrictToPass, isInvalid } from '../manifests.ts';
import { readPathOperand } from '../path-operand.ts';
import { runWired, wirePass } from '../wire.ts';

/** `reconcile drift PATH`: how the server differs from what was applied (PATH, or `--base`). Never writes. Exit 0 without, 2 with. */
export async function run(invocation: Invocation): Promise<Answer> {
  const { settings } = invocation;
  const { path, written } = readPathOperand(invocation, 'drift');
  const atBase = settings.base === null ? null : await readAtBase(invocation, path, settings.base);
  const wired = await wirePass(invocation, path);
  try {
    const pass = { ...wired.pass, ...(atBase && { parse: atBase.parse }) };
    const result = await runWired({ ...wired, pass }, null, atBase?.content);
    const failed = result.failure === null ? [] : [wired.explain(result.failure)];
    const told = applyStrict(atBase?.problems ?? [], settings);
    // By a clock that is wrong nobody can tell what should be live.
    const doubt = result.plan?.refusals.find(({ code }) => code === 'clock-differs');
    const doubted = doubt === undefined ? [] : [makeError('clock-differs', doubt.summary, doubt.hint)];
    const problems = [...told, ...applyStrictToPass({ ...result, plan: null }, settings), ...failed, ...doubted];
    return answerOf(invocation, written, doubt === undefined ? result : { ...result, plan: null }, problems);
  } finally {
    await wired.close();
  }
}

function answerOf({ settings }: Invocation, root: string, result: PassResult, problems: readonly Problem[]): Answer {
  const { plan, desired, content, end } = result;
  const names = desired?.state?.userNames ?? new Map<string, string>();
  const told = plan === null ? null : tellDrift(plan, names, settings.base !== null);
  const revision = content?.revision ?? null;
  return {
    exit: chooseExitCode({
      invalid: end === 'invalid' || isInvalid(desired?.problems ?? [], settings),
      refused: end === 'refused' && told === null,
      failed: told === null,
      pending: told?.hasDrift ?? false,
      detailed: true,
    }),
    failed: told === null,
    text: ({ color }) => renderProblems(problems, color) + (told?.text(color) ?? ''),
    document: () => {
      const inSync = told === null ? null : !told.hasDrift;
      return renderDocument({ revision, in_sync: inSync, drift: told?.document() ?? [] }, problems);
    },
    report: () => ({
      ...makeProblemReport([...problems, ...(told?.problems() ?? [])]),
      root,
      server: findServer(settings),
      revision,
      headline: told?.headline ?? 'reconcile drift: not known',
    }),
  };
}
