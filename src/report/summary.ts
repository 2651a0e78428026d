import type { ApplyReport, OutcomeKind } from '../apply/outcome.ts';
import { joinSome } from '../model/printable.ts';
import { type Change, holdsBack, type Plan } from '../plan/plan.ts';

/** So many items, those of low rank where others are left out, which are told as `and 12 more, 3 of which are errors` (of rank 0). */
export function takeWorst<T>(items: readonly T[], most: number, rankOf: (item: T) => number = () => 1, bad = '') {
  const sorted = items.length <= most ? items : items.toSorted((a, b) => rankOf(a) - rankOf(b));
  const rest = sorted.slice(most);
  const worse = rest.filter((item) => rankOf(item) <= 0).length;
  const left = `and ${rest.length} more${worse === 0 ? '' : `, ${worse} of which ${bad}`}`;
  return { lines: sorted.slice(0, most), rest, left: rest.length === 0 ? '' : left };
}

/** How many of these write, and what to say of those that do not. */
export function tally(changes: readonly { readonly change: Change }[]) {
  const changed = changes.filter(({ change }) => change.action !== 'skip').length;
  return { changed, left: changed === changes.length ? '' : `, ${changes.length - changed} skipped` };
}

/** How many changes create, replace, update and delete, without those that are none. */
export function countActions({ summary, changes }: Plan): readonly (readonly [action: string, number: number])[] {
  const { create, update, delete: deleted } = summary;
  const replace = changes.filter(({ action, via }) => action === 'update' && via === 'replace').length;
  const counts = { create, replace, update: update - replace, delete: deleted };
  return Object.entries(counts).filter(([, number]) => number > 0);
}

/** `Applied: 12 done in 0.1 s; a fresh read agrees.` or what is missing. */
export function summariseApply(apply: ApplyReport, plan: Plan | null): string {
  const { end, outcomes, durationMs } = apply;
  const kinds: readonly OutcomeKind[] = ['done', 'skipped', 'failed', 'dropped', 'unknown'];
  const counts = kinds
    .map((kind) => [kind, outcomes.filter(({ outcome }) => outcome === kind).length] as const)
    .filter(([kind, number]) => number > 0 || kind === 'done')
    .map(([kind, number]) => `${number} ${kind}`);
  const took = `in ${(durationMs / 1000).toFixed(1)} s`;
  return `${heads[end]}: ${counts.join(', ')} ${took}${endText(apply, plan !== null && holdsBack(plan))}`;
}

const heads = { converged: 'Applied', 'not-converged': 'Not converged', stopped: 'Stopped', failed: 'Failed' } as const;

function endText({ end, notConverged, enforcedInMs }: ApplyReport, unsent: boolean): string {
  if (end !== 'converged') return notConverged.length === 0 ? '.' : `; not as desired: ${joinSome(notConverged, 10)}.`;
  const agrees = `a fresh read of the server agrees${unsent ? ', but for what was not sent for want of a secret' : ''}`;
  // The packet filter follows later than the answer.
  if (enforcedInMs === null || enforcedInMs < 100) return `; ${agrees}.`;
  return `; ${agrees}. The packet filter is expected to hold it in ${(enforcedInMs / 1000).toFixed(1)} s.`;
}

/** `1 rule`, `2 rules`. */
export function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}

/** `5 minutes`, `3 hours`, `2 days`. */
export function formatAge(ms: number): string {
  const minutes = Math.max(0, Math.round(ms / 60_000));
  if (minutes === 0) return 'less than a minute';
  if (minutes < 90) return count(minutes, 'minute');
  return minutes < 48 * 60 ? count(Math.round(minutes / 60), 'hour') : count(Math.round(minutes / 1440), 'day');
}
