import { findClosedWindow } from '../plan/guard/windows.ts';
import { formatStepKey, type Plan } from '../plan/plan.ts';
import type { Verdict } from './failure.ts';
import type { FightMemory } from './fight.ts';
import type { LoopParts, LoopPassRequest } from './loop-parts.ts';
import type { Stalled } from './stall.ts';

/** What the controller's own gate knows when a plan that no guard refused is about to be written. */
export interface GateInput extends Pick<LoopParts, 'clock' | 'lease' | 'settings'>, Pick<LoopPassRequest, 'back'> {
  /** ms until the content has been stable long enough to delete; 0: it has. */
  readonly deleteWaitMs: () => number;
  /** The plan is for the revision that is applied already: what it corrects is drift. */
  readonly isDrift: boolean;
  /** A plan of these steps alone is not written again. */
  readonly stalled: Stalled | null;
  readonly fights: FightMemory;
}

/** The gate's word: null lets the plan through. `waitMs`: look again after that. */
export interface Held extends Verdict {
  readonly waitMs: number | null;
}

/** Asked beside the gate, since only who leads can tell. */
export const notRecorded = held(
  'RecordFailed',
  'the record beside the lease cannot be written, so nothing is applied: a new leader would not know of it',
  5000,
);

/** The same, where an earlier process left a revision behind. */
export const unconfirmedBefore = held(
  'AwaitingConfirmation',
  'the revision before was never confirmed: it is taken back first',
  0,
);

/**
 * Decides whether a plan may be written now. The first row that applies counts:
 *
 *   another replica writes        | Standby
 *   going back                    | null
 *   suspended                     | Suspended
 *   all of it failed for good     | Stalled, with the old reason
 *   drift, and drift is reported  | DriftReported
 *   drift, and another writer     |
 *     undoes the same correction  | Fighting, until its pause is over
 *   rules vanish, content is new  | Settling, until it has been stable for long
 *   no window is open, and the    |
 *     plan opens or configures    | OutsideWindow, until one is
 */
export function checkGate(plan: Plan, { clock, lease, isDrift, stalled, ...input }: GateInput): Held | null {
  const { suspended, onDrift, windows } = input.settings();
  const wallTime = clock.wallTime();
  const steps = plan.steps.map(formatStepKey);
  if (!lease.mayStart()) return held('Standby', 'another replica holds the lease', null);
  if (input.back !== undefined) return null;
  if (suspended) return held('Suspended', `suspended; pending writes: ${steps.length}`, null);
  if (stalled !== null && steps.every((step) => stalled.steps.has(step))) return { ...stalled.verdict, waitMs: null };
  if (isDrift) {
    const changed = `the live state was changed by others: ${steps.length} writes would undo it`;
    if (onDrift === 'report') return held('DriftReported', changed, null);
    const { fought, waitMs } = input.fights.find(steps, clock.now());
    if (waitMs > 0) {
      const message = `another writer keeps undoing ${fought.length} corrections (${fought[0] ?? ''}); the next one waits`;
      return held('Fighting', message, waitMs);
    }
  }
  const deleteWaitMs = isDrift || countDeletes(plan) === 0 ? 0 : input.deleteWaitMs();
  if (deleteWaitMs > 0) {
    const message = 'rules would be deleted: waiting until the content has been stable for longer';
    return held('Settling', message, deleteWaitMs);
  }
  const closed = findClosedWindow(windows, plan, wallTime);
  if (closed === null) return null;
  return held('OutsideWindow', closed.message, closed.opensAt === null ? null : closed.opensAt - wallTime);
}

function held(reason: Verdict['reason'], message: string, waitMs: number | null): Held {
  return { kind: 'held', reason, message, waitMs };
}

/** Rules that the plan deletes because nothing desires them. */
export function countDeletes(plan: Plan): number {
  return plan.changes.filter((change) => change.action === 'delete').length;
}
