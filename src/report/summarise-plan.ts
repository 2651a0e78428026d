import { formatInstant } from '../model/instant.ts';
import { holdsBack, type Plan } from '../plan/plan.ts';
import type { RunReport } from './run-report.ts';
import { count, countActions } from './summary.ts';
import { findTurns } from './traffic/describe.ts';

/** `2 to create, 1 to replace, 1 to delete, 37 unchanged. 5 requests. Digest 4df71eb0a1b2.` or `In sync: …`. */
export function summarisePlan(report: RunReport, plan: Plan): string {
  const { create, update, delete: deleted, keep, skip, steps } = plan.summary;
  const skipped = skip === 0 ? '' : `, ${skip} skipped`;
  const digest = report.digest === null ? '' : ` Digest ${report.digest.slice(0, 12)}.`;
  const isComparison = report.comparison !== undefined;
  const refusal = isComparison ? ' Refused.' : ' Refused: nothing will be written.';
  const refused = plan.refusals.length === 0 || report.approved ? '' : refusal;
  const later = tellLater(plan);
  if (steps === 0 && create + update + deleted === 0) {
    if (isComparison) return `No differences: ${count(keep, 'object')} unchanged${skipped}.${refused}`;
    const [first, last] = later === '' ? ['', '; nothing to do'] : [`${later}. `, ' now'];
    const state = holdsBack(plan) ? 'Not in sync, for want of a secret' : 'In sync';
    return `${first}${state}: ${count(keep, 'object')} unchanged${skipped}${last}.${refused}`;
  }
  const counts = countActions(plan).map(([action, number]) => `${number} to ${action}`);
  const head = [...counts, `${keep} unchanged`].join(', ');
  const turning = later === '' ? '' : ` ${later}.`;
  return `${head}${skipped}.${isComparison ? '' : ` ${count(steps, 'request')}.`}${turning}${refused}${digest}`;
}

/** `Closes for some people from 2027-12-24T00:00:00Z on; opens for everyone from …`: when each begins, for everyone if ever. */
function tellLater(plan: Plan): string {
  const ways = ['closes', 'opens'] as const;
  const text = ways.flatMap((way) => {
    const all = findTurns(plan).filter((one) => one[way].length > 0);
    const first = all.find((one) => one[way].includes(null)) ?? all[0];
    const whom = first?.[way].includes(null) ? 'everyone' : 'some people';
    return first === undefined ? [] : `${way} for ${whom} from ${formatInstant(first.entry.from)} on`;
  });
  return text.join('; ').replace(/^./, (letter) => letter.toUpperCase());
}
