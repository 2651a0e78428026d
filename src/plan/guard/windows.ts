import { Cron } from 'croner';
import { formatInstant } from '../../model/instant.ts';
import { joinSome } from '../../model/printable.ts';
import { fail, ok, type Result } from '../../model/result.ts';
import { formatRule } from '../../policy/words.ts';
import type { Plan } from '../plan.ts';
import { listOpened } from './guard.ts';

/** When plans that open traffic or change the Configuration may be written (`allow`), or may not (`deny`). */
export interface Window {
  readonly kind: 'allow' | 'deny';
  readonly schedule: Cron;
  readonly durationMs: number;
  readonly scope: readonly ('rules' | 'configuration')[];
}

/** Edges of windows that are looked at; a schedule that is always closed is not followed for ever. */
const mostLooks = 1000;

/** Why a plan waits for a window at `now`, and until when (null: no time found); null: it may be written. A plan waits whole. */
export function findClosedWindow(windows: readonly Window[], plan: Plan, now: number) {
  const opens = plan.effect.opens.length > 0;
  const exposes = listOpened(plan).length > 0;
  const configures = plan.steps.some(({ type }) => type === 'configure');
  const needs = [
    ...(opens || exposes ? [{ scope: 'rules', does: `opens traffic${opens ? '' : ' on the way'}` } as const] : []),
    ...(configures ? [{ scope: 'configuration', does: 'changes the Configuration' } as const] : []),
  ];
  const scopes = needs.map(({ scope }) => windows.filter((one) => one.scope.includes(scope)));
  const opensAt = findOpening(scopes, now);
  if (opensAt === now) return null;
  const does = needs.map((one) => one.does).join(' and ');
  const next = opensAt === null ? 'no window was found for it' : `the next window opens at ${formatInstant(opensAt)}`;
  const closing = plan.effect.closes.length === 0 ? [] : listRevocations(plan);
  const waiting = closing.length === 0 ? '' : `; what closes is held with it: ${joinSome(closing, 5)}`;
  return { opensAt, message: `outside the window: this plan ${does}, and ${next}${waiting}` };
}

/** The rules by which a plan takes access away. */
function listRevocations({ changes }: Plan): readonly string[] {
  return changes.flatMap((one) => {
    if (one.kind !== 'Rule' || one.action === 'keep' || one.action === 'skip') return [];
    const { live, desired, name } = one;
    const isRevocation = live?.rule.action === 'accept' || desired?.rule.action === 'drop';
    return isRevocation ? [name ?? (live === null ? '' : formatRule(live.rule, new Map()))] : [];
  });
}

/** When each window is next in force, of those that ever are; `from` may have passed. */
export function listNextWindows(windows: readonly Window[], now: number) {
  return windows.flatMap((window) => {
    const { kind, scope, durationMs } = window;
    const from = findStart(window, now - durationMs);
    return Number.isFinite(from) ? [{ kind, scope, from, to: from + durationMs }] : [];
  });
}

/** The first time from this one on at which each scope may be written; null: none was found. */
function findOpening(scopes: readonly (readonly Window[])[], from: number): number | null {
  let time = from;
  for (let looks = 0; looks < mostLooks && time < Number.POSITIVE_INFINITY; looks++) {
    const now = time;
    time = scopes.reduce((latest, windows) => Math.max(latest, skipClosed(windows, now)), now);
    if (time === now) return time;
  }
  return null;
}

/** The time itself where it is open: in a window that allows, if there are any, and in none that denies; else until when it is closed. */
function skipClosed(windows: readonly Window[], time: number): number {
  const denied = windows.filter(({ kind }) => kind === 'deny');
  const over = denied.reduce((latest, one) => Math.max(latest, findEnd(one, time)), time);
  if (over > time) return over;
  const allows = windows.filter(({ kind }) => kind === 'allow');
  if (allows.length === 0 || allows.some((one) => findEnd(one, time) > time)) return time;
  return allows.reduce((first, one) => Math.min(first, findStart(one, time)), Number.POSITIVE_INFINITY);
}

function findStart({ schedule }: Window, after: number): number {
  return schedule.nextRun(new Date(after))?.getTime() ?? Number.POSITIVE_INFINITY;
}

/** When the window that last began at this time or before ends. */
function findEnd({ schedule, durationMs }: Window, time: number): number {
  const [last] = schedule.previousRuns(1, new Date(time + 1));
  return last === undefined ? Number.NEGATIVE_INFINITY : last.getTime() + durationMs;
}

/** Reads the five fields of cron (`30 8 * * mon-fri`); the error says what is wrong. */
export function parseSchedule(text: string, timezone: string): Result<Cron, string> {
  const { length } = text.trim().split(/\s+/);
  if (length !== 5) return fail(`"${text}" has ${length} fields; cron has five: minute hour day month weekday`);
  try {
    const schedule = new Cron(text, { timezone, paused: true });
    return schedule.nextRun(new Date(0)) === null ? fail(`"${text}" names a day that no month has`) : ok(schedule);
  } catch (error) {
    const own = error instanceof Error ? error.message.replace(/^CronPattern: /, '') : 'it cannot be read';
    const reason = /[a-z]{4}/i.test(text) ? 'write names with three letters, such as FRI or JAN' : own;
    return fail(`"${text}" is not a schedule of cron (minute hour day month weekday): ${reason}`);
  }
}
