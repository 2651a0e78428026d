import type { Outcome } from '../apply/outcome.ts';
import type { Boundary } from '../model/state.ts';
import type { PassResult } from '../pass/pass.ts';
import type { SourceContent } from '../ports.ts';
import { pickWorst, type Verdict } from './failure.ts';
import type { Trigger } from './trigger.ts';

/** What running a pass gave. */
export interface PassRun {
  readonly result: PassResult | null;
  readonly verdict: Verdict;
  readonly outcomes: readonly Outcome[];
  /** The revision is in effect, and asks for what it asked for then: what differs from that is drift. */
  readonly isDrift: boolean;
  /** The passes over each part, where both together did not get through. */
  readonly apart?: { readonly rules: PassRun; readonly configuration: PassRun };
  /** Rules that it let begin and end by themselves. */
  readonly turned?: readonly Boundary[];
}

/** What a turn came to; of what was run, as much as there is. */
export interface PassEnding extends Partial<PassRun> {
  readonly verdict: Verdict;
  readonly triggers: ReadonlySet<Trigger>;
  readonly started: number;
  readonly from: number;
  readonly content: SourceContent | null;
  /** What is wrong with the newest revision, while an older one is in effect. */
  readonly complaint?: Verdict;
}

/** Number of live rules after a pass; null: it did not see them. */
export function countLiveRules(result: PassResult | null): number | null {
  if (result === null || result.live === null) return null;
  const done = (result.apply?.outcomes ?? []).filter((one) => one.outcome === 'done');
  const created = done.filter((one) => one.step.type === 'create').length;
  const deleted = done.filter((one) => one.step.type === 'delete').length;
  return result.live.rules.length + created - deleted;
}

/** Whether it is worth trying the rules and the Configuration apart: a refusal or an answer that may concern one of them only. */
export function mayBeOnePart(result: PassResult | null): boolean {
  if (result === null || !result.desired?.state?.configuration) return false;
  if (result.end === 'refused') return true;
  const codes = new Set(['server-error', 'unreadable', 'list-unstable', 'not-json', 'torn-body', 'timeout']);
  return result.end === 'unreadable' && codes.has(result.failure?.code ?? '');
}

/** Two runs, one over each part, as one. */
export function joinRuns(rules: PassRun, configuration: PassRun): PassRun {
  const [waitMs] = [rules, configuration].flatMap(({ verdict }) => verdict.waitMs ?? []).sort((a, b) => a - b);
  const troubled = [rules, configuration].find((run) => run.verdict.kind !== 'good');
  return {
    result: troubled?.result ?? rules.result,
    verdict: { ...pickWorst([rules.verdict, configuration.verdict]), waitMs },
    outcomes: [...rules.outcomes, ...configuration.outcomes],
    isDrift: rules.isDrift,
    apart: { rules, configuration },
  };
}
