import { systemClock } from '../adapters/clock.ts';
import { findOpenUntil } from '../apply/outcome.ts';
import { escapeControls } from '../model/printable.ts';
import { formatRuleKey } from '../model/rule.ts';
import { countChanges } from '../pass/history.ts';
import { writeAnswer } from './answer.ts';
import { lineToType } from './arguments.ts';
import { awaitConfirmation, confirmTermsOf, describeLeft, refuseOwned } from './await-confirmation.ts';
import { type Answer, exitCodes, Failure, type Invocation, makeFailure } from './command.ts';
import { takeBack } from './go-back.ts';
import { isScreen, readOutputs } from './output.ts';
import { type PassRequest, runPass } from './pass-run.ts';
import type { ConfirmTerms, EarlierApply, PendingApply } from './pending.ts';
import { isOfOtherScope, loadPending, openPending } from './pending.ts';
import { describeScope } from './plan-settings.ts';
import { lookAtLease } from './watch/lease-settings.ts';

/** An apply that is taken back unless it is confirmed, where the command line says so; any other is run as it is. */
export async function applyOnTrial(invocation: Invocation, request: PassRequest): Promise<Answer> {
  const terms = confirmTermsOf(invocation);
  const earlier = request.planOnly ? null : await settleEarlier(invocation);
  if (earlier !== null) return earlier;
  if (terms === null) return runPass(invocation, request);
  const alone = { ...invocation, mayWrite: await watchLease(invocation) };
  return await runPass(alone, { ...request, trial: makeTrial(alone, terms) });
}

/** Asks before each write whether a holder of the lease, unless suspended, would write too; throws a `Failure` where one does now. */
async function watchLease(invocation: Invocation, goesBack = false): Promise<() => Promise<boolean | null>> {
  const { settings } = invocation;
  const holder = await lookAtLease(invocation).catch((error: unknown) => {
    if (error instanceof Failure) throw error;
    // Going back tries again, as one does that began when the lease could be read.
    if (goesBack) return null;
    const summary = `nobody knows who holds the lease ${settings.lease}: it cannot be read`;
    throw makeFailure('state', summary, 'check --lease');
  });
  const isSilent = (now: typeof holder): boolean => now === null || now.suspended;
  if (holder !== null && !isSilent(holder)) {
    const suspend = 'suspend it first: `suspend: true` in its settings, then here --no-suspend where you share them';
    const hint = `${suspend}; one that is suspended may go back as long as its revision waits to be confirmed`;
    const summary = `${escapeControls(holder.name)} holds the lease ${settings.lease}, and would write at the same time`;
    throw makeFailure('suspended', summary, hint, exitCodes.refused);
  }
  return () => lookAtLease(invocation).then(isSilent, () => null);
}

/** One apply and the wait for its confirmation. What was before, with its secrets, is held here in memory alone. */
function makeTrial(invocation: Invocation, terms: ConfirmTerms): NonNullable<PassRequest['trial']> {
  const files = openPending(invocation);
  let pending: PendingApply | null = null;
  return {
    async onRecord(record, plan) {
      const live = plan.changes.flatMap((one) => (one.kind === 'Rule' && one.live !== null ? [one.live] : []));
      const known = new Set(live.map(({ rule }) => formatRuleKey(rule)));
      const next = { ...terms, scope: describeScope(invocation.settings), record, known, until: null, openUntil: 0 };
      if (pending === null) await files.begin(next);
      const obstacles = pending === null ? [] : await files.save(next);
      pending = next;
      return obstacles;
    },
    async decide(applied) {
      const changed = pending === null ? 0 : countChanges(pending.record);
      if (pending !== null && changed === 0) await files.forget('waits');
      if (pending === null || changed === 0) return { isKept: true, answer: applied };
      const { settings, terminal } = invocation;
      const { outcomes = [] } = applied.report?.().apply ?? {};
      const openUntil = findOpenUntil(outcomes, systemClock.wallTime(), settings.timeout);
      await writeAnswer(applied, readOutputs(settings.output, terminal.cwd).filter(isScreen), settings, terminal);
      const { failed, filterMs } = judgeApplied(applied);
      if (failed === null) await systemClock.sleep(filterMs, terminal.stop);
      const waiting = { ...pending, openUntil, until: systemClock.wallTime() + (failed === null ? terms.withinMs : 0) };
      await files.save(waiting);
      const back = await settleTrial(invocation, waiting, failed);
      if (back !== null) return { isKept: false, answer: back };
      // The screen has the answer already: what is left is for files and documents.
      const { notes: _, ...answer } = applied;
      const text: Answer['text'] = (display) => (display.onScreen === true ? '' : (answer.text?.(display) ?? ''));
      return { isKept: true, answer: { ...answer, text } };
    },
  };
}

/** Why nobody is asked (null: somebody is): what is live is not what was reviewed. And the ms until the filter should hold it; 0: seen. */
function judgeApplied({ report }: Answer): { readonly failed: string | null; readonly filterMs: number } {
  const { apply = null, kernel } = report?.() ?? {};
  const state = kernel?.report.state;
  const differs = state === 'differs' ? 'The packet filter does not hold what was applied' : null;
  const failed = apply?.end === 'converged' ? differs : 'Not all of it could be applied';
  return { failed, filterMs: state === 'enforced' ? 0 : (apply?.enforcedInMs ?? 0) };
}

/** Waits for the confirmation, and goes back without it; null: the apply is kept. `failed`: why nobody is asked. */
async function settleTrial(invocation: Invocation, pending: Omit<EarlierApply, 'stage'>, failed: string | null = null) {
  const files = openPending(invocation);
  const why = await awaitConfirmation(invocation, files, pending, failed);
  if (why !== null && (await files.claimGoingBack())) return await takeBack(invocation, pending, why);
  if (why === null) await files.forget('waits');
  if ((await loadPending(invocation))?.stage === 'goesBack') throw goingBackElsewhere();
  invocation.terminal.stderr(why === null ? 'Kept.\n' : 'Kept: it was confirmed meanwhile.\n');
  return null;
}

function goingBackElsewhere(): Error {
  return makeFailure('state', 'another process is taking this apply back', 'wait for it, then look: reconcile history');
}

/** Takes up an apply whose process was killed; null: there is none, or it was kept. Throws a `Failure` while another process does. */
export async function settleEarlier(invocation: Invocation, isLast = false): Promise<Answer | null> {
  const earlier = await loadPending(invocation);
  if (earlier === null || earlier.stage === 'wantsSecret') return null;
  const { stage, record, until } = earlier;
  if (isOfOtherScope(earlier, invocation)) {
    const summary = 'an apply of another `scope` waits here to be confirmed, or to be taken back';
    throw makeFailure('state', summary, 'settle it with the --config, or the fleet, of that apply');
  }
  const files = openPending(invocation);
  const leftMs = Math.max(0, until - systemClock.wallTime());
  if (stage === 'goesBack' && (await files.findOwner()) !== null) throw goingBackElsewhere();
  await refuseOwned(files, leftMs);
  // A full disk keeps nobody from going back.
  await files.own().catch(() => undefined);
  const alone = { ...invocation, mayWrite: await watchLease(invocation, true) };
  if (stage === 'goesBack')
    return await takeBack(alone, { ...earlier, isLast }, 'An earlier run did not get to the end of going back');
  const what = `The apply of ${record.at.slice(0, 19)}Z by ${record.by} was never confirmed, and its process is gone.`;
  const toKeep = lineToType('confirm', invocation.settings);
  const left = leftMs === 0 ? '' : ` Going back in ${describeLeft(leftMs)}; to keep it: ${toKeep}`;
  invocation.terminal.stderr(`${escapeControls(what + describeCut(stage) + left)}\n`);
  return await settleTrial(alone, earlier);
}

/** What is to be known of an apply that was killed while it wrote. */
export function describeCut(stage: EarlierApply['stage']): string {
  return stage === 'written' ? ' It was killed while it wrote, so that not all of it may be there.' : '';
}
