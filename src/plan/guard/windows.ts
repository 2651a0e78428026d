import type { Result } from '../../model/result.ts';
import { fail, ok } from '../../model/result.ts';
import type { Plan } from '../plan.ts';
import type { CronSchedule } from './cron.ts';
import { listStarts } from './cron.ts';

export type WindowScope = 'rules' | 'configuration';

/** When plans that open traffic or change the Configuration may be written (`allow`), or may not (`deny`). */
export interface Window {
  readonly kind: 'allow' | 'deny';
  readonly schedule: CronSchedule;
  readonly durationMs: number;
  readonly scope: readonly WindowScope[];
}

/** Why a plan waits, and until when (ms since 1970; null: no window opens within 400 days). */
export interface ClosedWindow {
  readonly opensAt: number | null;
  readonly message: string;
}

const dayMs = 86_400_000;
/** Looked ahead first, since most windows open within days. */
const horizons = [8 * dayMs, 400 * dayMs];

/** Whether a plan must wait for a window at `now`; null: it may be written. Only what opens traffic or configures waits, whole. */
export function findClosedWindow(windows: readonly Window[], plan: Plan, now: number): ClosedWindow | null {
  const opens = plan.effect.opens.length > 0 || plan.exposure.some(({ direction }) => direction === 'opened');
  const configures = plan.steps.some(({ type }) => type === 'configure');
  const needs: readonly WindowScope[] = [
    ...(opens ? (['rules'] as const) : []),
    ...(configures ? (['configuration'] as const) : []),
  ];
  if (needs.every((scope) => isOpen(readWindows(windows, scope, now, now), now))) return null;
  const opensAt = findOpening(windows, needs, now);
  const does = [opens ? 'opens traffic' : '', configures ? 'changes the Configuration' : '']
    .filter(Boolean)
    .join(' and ');
  const until =
    opensAt === null ? 'no window opens within 400 days' : `it waits until ${new Date(opensAt).toISOString()}`;
  const { length } = plan.effect.closes;
  const waiting =
    length === 0 ? '' : `; what it closes (${length} ${length === 1 ? 'entry' : 'entries'} of traffic) waits with it`;
  return { opensAt, message: `outside the window: this plan ${does}, and ${until}${waiting}` };
}

/** When a window is next in force; `from` may have passed. */
export interface NextWindow extends Pick<Window, 'kind' | 'scope'> {
  readonly from: number;
  readonly to: number;
}

/** The next time of each window, for those that have one within eight days. */
export function listNextWindows(windows: readonly Window[], now: number): readonly NextWindow[] {
  return windows.flatMap(({ kind, scope, schedule, durationMs }) => {
    const [from] = listStarts(schedule, now - durationMs, now + 8 * dayMs);
    return from === undefined ? [] : [{ kind, scope, from, to: from + durationMs }];
  });
}

/** The next time at which all of these scopes may be written. */
function findOpening(windows: readonly Window[], needs: readonly WindowScope[], now: number): number | null {
  for (const horizon of horizons) {
    const scopes = needs.map((scope) => readWindows(windows, scope, now, now + horizon));
    const edges = scopes.flatMap((one) => one.flatMap(({ intervals }) => intervals.flat()));
    const sorted = edges.filter((edge) => edge > now && edge <= now + horizon).toSorted((a, b) => a - b);
    const opening = sorted.find((edge) => scopes.every((one) => isOpen(one, edge)));
    if (opening !== undefined) return opening;
  }
  return null;
}

interface Timed {
  readonly kind: Window['kind'];
  /** From (inclusive) and to (exclusive), ascending, none touching the next. */
  readonly intervals: readonly (readonly [number, number])[];
}

function readWindows(windows: readonly Window[], scope: WindowScope, from: number, to: number): readonly Timed[] {
  return windows
    .filter((one) => one.scope.includes(scope))
    .map(({ kind, schedule, durationMs }) => {
      const intervals: [number, number][] = [];
      for (const start of listStarts(schedule, from - durationMs, to)) {
        const last = intervals.at(-1);
        if (last !== undefined && start <= last[1]) last[1] = Math.max(last[1], start + durationMs);
        else intervals.push([start, start + durationMs]);
      }
      return { kind, intervals };
    });
}

/** Inside some window that allows, where there are any, and inside none that denies. */
function isOpen(windows: readonly Timed[], at: number): boolean {
  const isIn = ({ intervals }: Timed): boolean => intervals.some(([from, to]) => from <= at && at < to);
  const allows = windows.filter(({ kind }) => kind === 'allow');
  return !windows.some((one) => one.kind === 'deny' && isIn(one)) && (allows.length === 0 || allows.some(isIn));
}

/** A duration as settings write it, in ms: `90m`, `8h`, `2d`; from a minute to 31 days. */
export function parseWindowDuration(text: string): Result<number, string> {
  const [, digits = '', unit = ''] = /^(\d{1,5})([mhd])$/.exec(text) ?? [];
  const ms = Number(digits) * ({ m: 60_000, h: 3_600_000, d: dayMs }[unit] ?? 0);
  return ms >= 60_000 && ms <= 31 * dayMs ? ok(ms) : fail('a time from 1m to 31d, such as 90m, 8h or 2d');
}
