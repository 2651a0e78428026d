import { findClosedWindow } from '../plan/guard/windows.ts';
import type { Plan } from '../plan/plan.ts';
import type { Verdict } from './failure.ts';
import type { FightMemory } from './fight.ts';
import type { LoopSettings } from './loop-parts.ts';
import type { Stalled } from './stall.ts';
import { formatStepKey } from './step-key.ts';

/** What the controller's own gate knows when a plan that no guard refused is about to be written. */
export interface GateInput {
  readonly plan: Plan;
  readonly now: number;
  readonly settings: Pick<LoopSettings, 'suspended' | 'onDrift' | 'windows'>;
  readonly writer: boolean;
  /** What nobody confirmed is taken back. */
  readonly isBack: boolean;
  /** The plan is for the revision that is applied already: what it corrects is drift. */
  readonly isDrift: boolean;
  /** ms until the content has been stable long enough to delete; 0: it has. */
  readonly deleteWaitMs: number;
  /** A plan of these steps alone is not written again. */
  readonly stalled: Stalled | null;
  readonly wallTime: number;
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
export function checkGate(input: GateInput): Held | null {
  const { plan } = input;
  const { suspended, onDrift, windows } = input.settings;
  const steps = plan.steps.length;
  if (!input.writer) return held('Standby', 'another replica holds the lease', null);
  if (input.isBack) return null;
  if (suspended) return held('Suspended', `suspended; pending writes: ${steps}`, null);
  if (input.stalled !== null && isMadeOf(plan, input.stalled.steps)) return { ...input.stalled.verdict, waitMs: null };
  if (input.isDrift && onDrift === 'report') {
    return held('DriftReported', `the live state was changed by others: ${steps} writes would undo it`, null);
  }
  if (input.isDrift) {
    const { fought, waitMs } = input.fights.find(plan.steps.map(formatStepKey), input.now);
    if (waitMs > 0) {
      const message = `another writer keeps undoing ${fought.length} corrections (${fought[0] ?? ''}); the next one waits`;
      return held('Fighting', message, waitMs);
    }
  }
  if (input.deleteWaitMs > 0 && countDeletes(plan) > 0) {
    return held(
      'Settling',
      'rules would be deleted: waiting until the content has been stable for longer',
      input.deleteWaitMs,
    );
  }
  const closed = findClosedWindow(windows, plan, input.wallTime);
  if (closed === null) return null;
  return held('OutsideWindow', closed.message, closed.opensAt === null ? null : closed.opensAt - input.wallTime);
}

function isMadeOf(plan: Plan, steps: ReadonlySet<string>): boolean {
  return plan.steps.every((step) => steps.has(formatStepKey(step)));
}

function held(reason: Verdict['reason'], message: string, waitMs: number | null): Held {
  return { kind: 'held', reason, message, waitMs };
}

/** Rules that the plan deletes because nothing desires them. */
export function countDeletes(plan: Plan): number {
  return plan.changes.filter((change) => change.action === 'delete').length;
}
