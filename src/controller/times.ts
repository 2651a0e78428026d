import { type DesiredState, findNextBoundary } from '../model/state.ts';
import type { SourceContent } from '../ports.ts';
import type { ConditionReason } from './conditions.ts';
import { isInForce } from './failure.ts';
import type { Leadership } from './leadership.ts';
import type { LoopParts } from './loop-parts.ts';
import type { PassEnding, PublishableRun } from './pass-ending.ts';
import type { PassOrder, PassRunner } from './pass-runner.ts';
import type { Status } from './status.ts';

/** Nothing may be written, or nothing can be told. */
const heldForAll: ReadonlySet<ConditionReason> = new Set([
  'Suspended',
  'Standby',
  'Stopped',
  'RecordFailed',
  'Unauthorized',
  'ClockDiffers',
]);

/** What running times takes beside who leads. */
interface TimesContext extends Pick<LoopParts, 'build'> {
  readonly order: (content: SourceContent) => PassOrder;
  /** Drift is only reported. */
  readonly reports: boolean;
  readonly now: number;
}

/**
 * One pass over a content, and the times of the revision in force as a plan of their own where they would wait with it:
 *
 * | the pass                                                  | beside it                                     |
 * |-----------------------------------------------------------|-----------------------------------------------|
 * | drift is only reported, and the applied revision's again  | what began or ended, before it                |
 * | refused, waiting or stalled, over the revision in force   | what began or ended, after it                 |
 * | the same over a newer revision                            | what ended by the revision in force, after it |
 */
export async function runWithTimes(
  { leadership, runner }: { readonly leadership: Leadership; readonly runner: PassRunner },
  content: SourceContent,
  context: TimesContext,
): Promise<PublishableRun> {
  const { order, build, reports, now } = context;
  const { base, history, record } = leadership;
  const runTimes = async (of: SourceContent, part: 'ends' | 'boundaries'): Promise<PublishableRun['outcomes']> => {
    const run = await runner.runTimes({ ...order(of), inEffect: null, deleteWaitMs: () => 0 }, part);
    if (run.verdict.kind === 'good') await leadership.turned(of, run.result?.desired?.state ?? null);
    return run.outcomes;
  };
  const isApplied = content.revision === record.appliedRevision && base !== null;
  const before = reports && isApplied && hasTurned(base, now) ? await runTimes(content, 'boundaries') : [];
  const run = await runner.run(order(content));
  const { lastGood } = history;
  const waits = !isInForce(run.verdict) && run.verdict.kind !== 'transient' && !heldForAll.has(run.verdict.reason);
  if (!waits || lastGood === null || before.length > 0) return { ...run, outcomes: [...before, ...run.outcomes] };
  // Of a record under other settings no base is known.
  const turned = base === null ? (await build(lastGood, null))?.expired?.length : hasTurned(base, now);
  if (!turned) return run;
  const after = await runTimes(lastGood, lastGood.revision === content.revision ? 'boundaries' : 'ends');
  return { ...run, outcomes: [...run.outcomes, ...after] };
}

function hasTurned({ rules, upcoming = [] }: DesiredState, now: number): boolean {
  return (
    rules.some(({ expires = Number.POSITIVE_INFINITY }) => expires <= now) ||
    upcoming.some(({ notBefore = Number.POSITIVE_INFINITY }) => notBefore <= now)
  );
}

/** What the status says of times after a pass. `base`: what is in force. */
export function viewTimes(
  { result, outcomes = [], verdict, holdMs }: PassEnding,
  base: DesiredState | null,
  now: number,
): Pick<Status, 'windowOpensAt' | 'nextBoundaryAt' | 'heldEnds'> {
  const [planned, inForce] = [result?.plan?.nextBoundary, base === null ? null : findNextBoundary(base, now)];
  const next = Math.min(planned ?? Number.POSITIVE_INFINITY, inForce ?? Number.POSITIVE_INFINITY);
  const deleted = new Set(
    outcomes.flatMap(({ step, outcome }) => (step.type === 'delete' && outcome === 'done' ? [step.live.id] : [])),
  );
  const ends = (result?.plan?.changes ?? []).filter(
    ({ action, origin }) => action === 'delete' && origin === 'expired',
  );
  return {
    windowOpensAt: verdict.reason === 'OutsideWindow' && holdMs !== null ? now + holdMs : null,
    nextBoundaryAt: verdict.reason !== 'ClockDiffers' && Number.isFinite(next) ? next : null,
    heldEnds: ends.filter(({ id }) => id !== null && !deleted.has(id)).length,
  };
}
