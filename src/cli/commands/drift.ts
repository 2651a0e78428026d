import type { Problem } from '../../model/problem.ts';
import type { PassResult } from '../../pass/pass.ts';
import { hasDrift, listDriftProblems, makeDriftDocument, renderDrift, summariseDrift } from '../../report/drift.ts';
import { renderDocument } from '../../report/json.ts';
import { renderProblems } from '../../report/problems.ts';
import { makeProblemReport } from '../../report/run-report.ts';
import { findServer } from '../approval.ts';
import { readAtBase } from '../base.ts';
import { type Answer, chooseExitCode, type Invocation } from '../command.ts';
import { applyStrictToPass, isInvalid } from '../manifests.ts';
import { readPathOperand } from '../path-operand.ts';
import { runWired, wirePass } from '../wire.ts';

/** `reconcile drift PATH`: how the server differs from what was applied (PATH, or `--base`). Never writes. Exit 0 without, 2 with. */
export async function run(invocation: Invocation): Promise<Answer> {
  const { settings } = invocation;
  const { path, written } = readPathOperand(invocation, 'drift');
  const source = settings.base === null ? undefined : await readAtBase(invocation, path, settings.base);
  const wired = await wirePass(invocation, path, source);
  try {
    const result = await runWired(wired, null);
    const failed = result.failure === null ? [] : [wired.explain(result.failure)];
    const problems = [...applyStrictToPass({ ...result, plan: null }, settings), ...failed];
    return answerOf(invocation, written, result, problems);
  } finally {
    await wired.close();
  }
}

function answerOf(
  { settings }: Invocation,
  root: string,
  { plan, desired, content, end }: PassResult,
  problems: readonly Problem[],
): Answer {
  const hasBase = settings.base !== null;
  const context = { names: desired?.state?.userNames ?? new Map<string, string>(), hasBase };
  return {
    exit: chooseExitCode({
      invalid: end === 'invalid' || isInvalid(desired?.problems ?? [], settings),
      failed: plan === null,
      pending: plan !== null && hasDrift(plan),
      detailed: true,
    }),
    failed: plan === null,
    text: ({ color }) => renderProblems(problems, color) + (plan === null ? '' : renderDrift(plan, context, color)),
    document: () => {
      const drift = plan === null ? null : makeDriftDocument(plan);
      const inSync = drift === null ? null : drift.length === 0;
      return renderDocument({ revision: content?.revision ?? null, in_sync: inSync, drift: drift ?? [] }, problems);
    },
    report: () => ({
      ...makeProblemReport([...problems, ...(plan === null ? [] : listDriftProblems(plan, context))]),
      root,
      server: findServer(settings),
      revision: content?.revision ?? null,
      headline: plan === null ? 'reconcile drift: not known' : summariseDrift(plan, hasBase),
    }),
  };
}
