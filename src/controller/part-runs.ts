import type { PassResult } from '../pass/pass.ts';
import { pickWorst } from './failure.ts';
import type { PassRun } from './pass-ending.ts';
import type { Status } from './status.ts';

type Parts = Status['parts'];

/** Whether it is worth trying the rules and the Configuration apart: a refusal or an answer that may concern one of them only. */
export function mayBeOnePart(result: PassResult | null): boolean {
  if (result === null || !result.desired?.state?.configuration) return false;
  if (result.end === 'refused') return true;
  const codes = new Set(['server-error', 'unreadable', 'list-unstable', 'not-json', 'torn-body', 'timeout']);
  return result.end === 'unreadable' && codes.has(result.failure?.code ?? '');
}

/** The parts after a pass over both: a failure of steps of one kind only does not concern the other. */
export function viewParts(run: PassRun): Parts {
  const failed = run.outcomes.filter((one) => one.outcome !== 'done' && one.outcome !== 'skipped');
  const clear = { ready: true, reason: 'InSync', message: '' };
  const onlyConfiguration =
    run.verdict.reason === 'SecretMissing' ||
    (failed.length > 0 && failed.every((one) => one.step.type === 'configure'));
  const onlyRules = failed.length > 0 && failed.every((one) => one.step.type !== 'configure');
  const managed = Boolean(run.result?.desired?.state?.configuration);
  return {
    rules: onlyConfiguration ? clear : viewOf(run),
    configuration: managed ? (onlyRules ? clear : viewOf(run)) : null,
  };
}

/** Two runs, one over each part, as one. */
export function joinRuns(rules: PassRun, configuration: PassRun): { readonly run: PassRun; readonly parts: Parts } {
  const holds = [rules.holdMs, configuration.holdMs].filter((ms) => ms !== null);
  const troubled = [rules, configuration].find((run) => run.verdict.kind !== 'good');
  return {
    run: {
      result: troubled?.result ?? rules.result,
      verdict: pickWorst([rules.verdict, configuration.verdict]),
      holdMs: holds.length === 0 ? null : Math.min(...holds),
      outcomes: [...rules.outcomes, ...configuration.outcomes],
    },
    parts: { rules: viewOf(rules), configuration: viewOf(configuration) },
  };
}

function viewOf({ verdict }: PassRun): NonNullable<Parts['rules']> {
  return { ready: verdict.kind === 'good', reason: verdict.reason, message: verdict.message };
}
