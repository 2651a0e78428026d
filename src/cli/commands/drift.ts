import type { Problem } from '../../model/problem.ts';
import type { PassResult } from '../../pass/pass.ts';
import { driftDocument, driftHeadline, driftProblems, driftText, hasDrift } from '../../report/drift.ts';
import { otherDocument } from '../../report/json.ts';
import { problemsText } from '../../report/problems.ts';
import { reportOfProblems } from '../../report/run-report.ts';
import { readAtBase } from '../base.ts';
import type { Answer, Invocation } from '../command.ts';
import { exitCodeOf } from '../exit-code.ts';
import { isInvalid, strictlyKnown } from '../manifests.ts';
import { pathOperand } from '../path-operand.ts';
import { runWired, wirePass } from '../wire.ts';

/**
 * `reconcile drift PATH`: what is different on the server from the manifests that were applied: those below PATH, or with
 * `--base REF|DIR` those. Never writes. Exit 0 without drift, 2 with.
 */
export async function run(invocation: Invocation): Promise<Answer> {
  const { settings } = invocation;
  const { path, written } = pathOperand(invocation, 'drift');
  const source = settings.base === null ? undefined : await readAtBase(invocation, path, settings.base);
  const wired = await wirePass(invocation, path, source);
  try {
    const result = await runWired(wired, null);
    const failed = result.failure === null ? [] : [wired.explain(result.failure)];
    const problems = [...strictlyKnown({ ...result, plan: null }, settings), ...failed];
    return answerOf(result, problems, {
      invalid: isInvalid(result.desired?.problems ?? [], settings),
      root: written,
      hasBase: settings.base !== null,
    });
  } finally {
    await wired.close();
  }
}

function answerOf(
  result: PassResult,
  problems: readonly Problem[],
  { invalid, root, hasBase }: { readonly invalid: boolean; readonly root: string; readonly hasBase: boolean },
): Answer {
  const { plan, desired, content, end } = result;
  const context = { names: desired?.state?.userNames ?? new Map<string, string>(), hasBase };
  return {
    exit: exitCodeOf({
      invalid: end === 'invalid' || invalid,
      failed: plan === null,
      pending: plan !== null && hasDrift(plan),
      detailed: true,
    }),
    failed: plan === null,
    text: ({ color }) => problemsText(problems, color) + (plan === null ? '' : driftText(plan, context, color)),
    document: () => {
      const drift = plan === null ? null : driftDocument(plan);
      const inSync = drift === null ? null : drift.length === 0;
      return otherDocument({ revision: content?.revision ?? null, in_sync: inSync, drift: drift ?? [] }, problems);
    },
    report: () => ({
      ...reportOfProblems([...problems, ...(plan === null ? [] : driftProblems(plan, context))]),
      root,
      headline: plan === null ? 'reconcile drift: not known' : driftHeadline(plan, hasBase),
    }),
  };
}
