import { systemClock } from '../../adapters/clock.ts';
import { countChanges } from '../../pass/history.ts';
import { makeProblemReport } from '../../report/run-report.ts';
import { count } from '../../report/summary.ts';
import { type Answer, exitCodes, type Failure, type Invocation, makeFailure } from '../command.ts';
import { findPendingOwner, loadPending, type PendingApply, pendingFolderOf, removePending } from '../pending.ts';
import { settleEarlier, untilOf } from '../trial.ts';

/** `reconcile confirm`: keeps the apply that waits; too late, and with nobody who does it, this goes back. */
export async function run(given: Invocation): Promise<Answer> {
  const folder = pendingFolderOf(given);
  const pending = await loadPending(given, folder);
  if (pending === null)
    throw makeFailure('state', `no apply waits to be confirmed in ${folder}`, 'check --base-url and --state-dir');
  const isAlive = (await findPendingOwner(folder)) !== null;
  if (pending.waiting.length > 0) return await keep(folder, pending);
  if (isAlive && pending.until === null && pending.place === 'waits')
    throw makeFailure('state', 'that apply is still being written', 'confirm it once it asks');
  const isLate = pending.place === 'goesBack' || untilOf(pending) <= systemClock.wallTime();
  if (!isLate) return await keep(folder, pending);
  if (isAlive) throw comesTooLate('that apply is being taken back');
  const answer = await settleEarlier(given);
  return answer ?? { text: () => 'Kept.\n' };
}

function comesTooLate(why: string): Failure {
  return makeFailure('state', `too late: ${why}`, 'look: reconcile history', exitCodes.refused);
}

async function keep(folder: string, { record, waiting }: PendingApply): Promise<Answer> {
  if (!(await removePending(folder, 'waits')))
    throw comesTooLate('that apply was confirmed a moment ago, or is being taken back');
  const what = waiting.length > 0 ? waiting.join(', ') : count(countChanges(record), 'change');
  const text = `Kept: ${what} of the apply of ${record.at.slice(0, 19)}Z by ${record.by}.\n`;
  return {
    text: () => text,
    report: () => ({ ...makeProblemReport([]), headline: text.trimEnd() }),
  };
}
