import path from 'node:path';
import { systemClock } from '../../adapters/clock.ts';
import { escapeControls } from '../../model/printable.ts';
import { isObject } from '../../model/result.ts';
import { listWaiting } from '../../pass/go-back.ts';
import { countChanges } from '../../pass/history.ts';
import { renderDocument } from '../../report/json.ts';
import { makeProblemReport } from '../../report/run-report.ts';
import { count } from '../../report/summary.ts';
import { type Answer, exitCodes, type Failure, type Invocation, makeFailure } from '../command.ts';
import { type EarlierApply, loadPending, openPending, type PendingFiles } from '../pending.ts';
import { describeCut, settleEarlier } from '../trial.ts';

/** `reconcile confirm`: keeps the apply that waits; too late, and with nobody who does it, this goes back. */
export async function run(given: Invocation): Promise<Answer> {
  const files = openPending(given);
  const pending = await loadPending(given);
  if (pending === null) {
    const record = await files.read('../record.json');
    if (isObject(record) && record['pendingRevision']) {
      const summary = 'only the command of `confirmWith` confirms the revision of a sidecar that waits here';
      throw makeFailure('state', summary, 'to keep it, remove `confirmWith` from its settings and send it SIGHUP');
    }
    const summary = `no apply waits to be confirmed in ${given.settings.stateDir ?? path.dirname(files.folder)}`;
    const places = 'check --base-url and --state-dir (of a fleet: DIR/targets/NAME)';
    throw makeFailure('state', summary, `${places}; or it was taken back: reconcile history`);
  }
  const { stage, until } = pending;
  if (stage === 'wantsSecret') return await keep(files, pending);
  if (stage === 'writing') throw makeFailure('state', 'that apply is still being written', 'confirm it once it asks');
  if (stage !== 'goesBack' && until > systemClock.wallTime()) return await keep(files, pending);
  if ((await files.findOwner()) !== null) throw comesTooLate('that apply is being taken back');
  return (await settleEarlier(given, true)) ?? { text: () => 'Kept.\n' };
}

function comesTooLate(why: string): Failure {
  return makeFailure('state', `too late: ${why}`, 'look: reconcile history', exitCodes.refused);
}

async function keep(files: PendingFiles, { record, stage }: EarlierApply): Promise<Answer> {
  const isRest = stage === 'wantsSecret';
  if (!(await files.forget(isRest ? 'wantsSecret' : 'waits')))
    throw comesTooLate('that apply was confirmed a moment ago, or is being taken back');
  const what = isRest ? listWaiting(record).join(', ') : count(countChanges(record), 'change');
  const { at, by } = record;
  const text = escapeControls(`Kept: ${what} of the apply of ${at.slice(0, 19)}Z by ${by}.${describeCut(stage)}`);
  const report = { ...makeProblemReport([]), headline: text };
  return { text: () => `${text}\n`, report: () => report, document: () => renderDocument({ kept: text }, []) };
}
