import { formatInstant } from '../model/instant.ts';
import { holdsBack, type Plan } from '../plan/plan.ts';
import type { RunReport } from './run-report.ts';
import { count, countActions } from './summary.ts';
import { findTurns } from './traffic/describe.ts';
import { joinWords } from './traffic/people.ts';

/** `2 to create, 1 to replace, 1 to delete, 37 unchanged. 5 requests. Digest 4df71eb0a1b2.` or `In sync: …`. */
export function summarisePlan(report: RunReport, plan: Plan): string {
  const { create, update, delete: deleted, keep, skip, steps } = plan.summary;
  const skipped = skip === 0 ? '' : `, ${skip} skipped`;
  const digest = report.digest === null ? '' : ` Digest ${report.digest.slice(0, 12)}.`;
  const isComparison = report.comparison !== undefined;
  const refusal = isComparison ? ' Refused.' : ' Refused: nothing will be written.';
  const refused = plan.refusals.length === 0 || report.approved ? '' : refusal;
  const later = tellTimes(plan);
  if (steps === 0 && create + update + deleted === 0) {
    const state = nameState(plan, isComparison);
    const head = later === '' ? state : `${later}. Now ${state.replace(/^./, (letter) => letter.toLowerCase())}`;
    return `${head}: ${count(keep, 'object')} unchanged${skipped}${head === 'In sync' ? '; nothing to do' : ''}.${refused}`;
  }
  const head = [...countActions(plan).map(([action, many]) => `${many} to ${action}`), `${keep} unchanged`].join(', ');
  const turning = later === '' ? '' : ` ${later}.`;
  return `${head}${skipped}.${isComparison ? '' : ` ${count(steps, 'request')}.`}${turning}${refused}${digest}`;
}

/** Whether the server is as the manifests say, or one side as the other, of a plan that changes nothing. */
function nameState(plan: Plan, isComparison: boolean): string {
  const isHidden = plan.changes.some(({ reason }) => reason === 'unknown-secret');
  if (isComparison) return isHidden ? 'No difference known, for want of a secret' : 'No differences';
  if (holdsBack(plan)) return 'Not in sync, for want of a secret';
  const isUnsure = plan.changes.some(({ action, origin }) => action === 'skip' && origin === 'this-revision');
  return isUnsure ? 'Not known to be in sync, for want of a secret' : 'In sync';
}

/** `Opens for some people now and for everyone from 2027-12-24T00:00:00Z on; closes …`: now, first, and first for everyone. */
function tellTimes(plan: Plan): string {
  const turns = findTurns(plan).filter(({ opens, closes }) => opens.length + closes.length > 0);
  const isForAll = (whom: readonly { readonly user: string | null }[]) => whom.some(({ user }) => user === null);
  const text = (['opens', 'closes'] as const).flatMap((way) => {
    const all = turns.filter((one) => one[way].length > 0);
    const whole = all.find((one) => isForAll(one[way]));
    const times = all.filter((one, index) => index === 0 || one === whole);
    const later = times.map((one) => [one[way], `from ${formatInstant(one.entry.from)} on`] as const);
    const told = [[plan.effect[way], 'now'] as const, ...later].filter(([whom]) => whom.length > 0);
    const words = told.map(([whom, when]) => `for ${isForAll(whom) ? 'everyone' : 'some people'} ${when}`);
    return words.length === 0 ? [] : `${way} ${joinWords(words)}`;
  });
  const isWritten = plan.summary.keep + plan.summary.skip < plan.changes.length;
  return turns.length === 0 && isWritten ? '' : text.join('; ').replace(/^./, (letter) => letter.toUpperCase());
}
