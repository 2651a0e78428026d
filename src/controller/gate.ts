import type { DesiredState } from '../model/state.ts';
import type { PassResult } from '../pass/pass.ts';
import { findClosedWindow } from '../plan/guard/windows.ts';
import { formatStepKey, type Plan } from '../plan/plan.ts';
import type { LoopParts, PassGoal } from './loop-parts.ts';
import { findUnfinished, type Verdict } from './pass-ending.ts';

/** Asked beside the gate, since only who leads can tell. */
export const notRecorded = held(
  'RecordFailed',
  'the record (beside the lease, or in the state folder) cannot be written, so nothing is applied: the next process would not know of it',
  5000,
);

/** The same, where a revision has to be taken back before anything else. */
export const unconfirmedBefore = held('AwaitingConfirmation', 'what was not confirmed is taken back first', 0);

/** Passes with the same plan that may end without convergence. */
const mostAttempts = 3;

// A fight: the same step was needed for drift so often within the window. Its next correction waits, twice as long each time.
const fightAt = 3;
const fightWindowMs = 14_400_000;
const [firstPauseMs, maxPauseMs] = [120_000, 1_800_000];

/** A goal, and what may hold it back. */
export interface PassOrder extends PassGoal {
  /** Called before the first write; gives null where it may be written. Null in its place: nothing is remembered of this order. */
  readonly begin: ((desired: DesiredState | null) => Promise<Verdict | null>) | null;
  /** Called in its place where the revision comes into effect in part, and not into force. */
  readonly beginAlone: () => Promise<Verdict | null>;
  /** ms until its content has been stable for long enough to delete; asked when there is a plan. */
  readonly deleteWaitMs: () => number;
}

/** Remembers, while this replica leads, what failed for good, never converged, or is undone by another writer each time. */
export class Gate {
  readonly #parts: Pick<LoopParts, 'clock' | 'lease' | 'settings' | 'hold'>;
  /** A plan of these steps alone is not written again while nothing changes. */
  #stalled: { readonly steps: ReadonlySet<string>; readonly verdict: Verdict } | null = null;
  #unconverged = { key: '', times: 0 };
  /** When each step was written to undo drift (monotonic, ms). */
  #corrections: ReadonlyMap<string, readonly number[]> = new Map();

  constructor(parts: Pick<LoopParts, 'clock' | 'lease' | 'settings' | 'hold'>) {
    this.#parts = parts;
  }

  /** Corrections that another writer keeps undoing. */
  get fights(): number {
    return [...this.#corrections.values()].filter((times) => times.length >= fightAt).length;
  }

  /**
   * Whether a plan that no guard refused may be written now; null: it may. `isDrift`: it is for the applied revision. The first
   * row that applies counts:
   *
   *   another replica writes        | Standby
   *   going back                    | null
   *   suspended                     | Suspended
   *   all failed for good, no end   | Stalled, with the old reason
   *   drift, and drift is reported  | DriftReported
   *   drift, and another writer     |
   *     undoes the same correction  | Fighting, until its pause is over
   *   rules vanish, content is new  | Settling, until it has been stable for long
   *   no window is open, and the    |
   *     plan opens or configures    | OutsideWindow, until one is
   *   nothing of it was written,    |
   *     and it is not its turn      | Waiting
   */
  check(plan: Plan, { back, ...order }: PassOrder, isDrift: boolean): Verdict | null {
    const { clock, lease, settings } = this.#parts;
    const { suspended, onDrift, windows } = settings();
    const steps = plan.steps.map(formatStepKey);
    if (!lease.mayStart()) return held('Standby', 'another replica holds the lease');
    if (back !== undefined) return null;
    if (suspended) return held('Suspended', `suspended; pending writes: ${steps.length}`);
    const stalled = this.#stalled;
    const endsRules = plan.steps.some(({ change }) => plan.changes[change]?.origin === 'expired');
    if (stalled !== null && !endsRules && steps.every((step) => stalled.steps.has(step))) return stalled.verdict;
    if (isDrift) {
      const changed = `the live state was changed by others; writes that would undo it: ${steps.length}`;
      if (onDrift === 'report') return held('DriftReported', changed);
      const fight = this.#findFight(steps, clock.now());
      if (fight !== null) return fight;
    }
    const deleteWaitMs = isDrift || plan.summary.delete === 0 ? 0 : order.deleteWaitMs();
    const settling = 'rules would be deleted: waiting until the content has been stable for longer';
    if (deleteWaitMs > 0) return held('Settling', settling, deleteWaitMs);
    const closed = findClosedWindow(windows, plan, clock.wallTime());
    if (closed === null) return this.#awaitTurn(order);
    return { ...held('OutsideWindow', closed.message), opensAt: closed.opensAt };
  }

  #awaitTurn({ begin, content: { revision }, record }: PassOrder): Verdict | null {
    if (begin === null || revision === record.inForceRevision) return null;
    const message = this.#parts.hold?.(revision, 'first-write');
    return message ? held('Waiting', message) : null;
  }

  #findFight(steps: readonly string[], now: number): Verdict | null {
    const written = this.#listRecent(now);
    const fought = steps.filter((step) => (written.get(step)?.length ?? 0) >= fightAt);
    const waitMs = fought.reduce((longest, step) => {
      const times = written.get(step) ?? [];
      const pauseMs = Math.min(maxPauseMs, firstPauseMs * 2 ** (times.length - fightAt));
      return Math.max(longest, (times.at(-1) ?? now) + pauseMs - now);
    }, 0);
    if (waitMs === 0) return null;
    const message = `corrections that another writer keeps undoing: ${fought.length} (${fought[0]}); the next one waits`;
    return held('Fighting', message, waitMs);
  }

  /** This plan, which corrects drift, is written now. */
  correct(plan: Plan): void {
    const now = this.#parts.clock.now();
    const written = this.#listRecent(now);
    for (const step of plan.steps.map(formatStepKey)) written.set(step, [...(written.get(step) ?? []), now]);
    this.#corrections = written;
  }

  #listRecent(now: number): Map<string, readonly number[]> {
    const isRecent = (at: number): boolean => now - at < fightWindowMs;
    const recent = [...this.#corrections].map(([step, times]) => [step, times.filter(isRecent)] as const);
    return new Map(recent.filter(([, times]) => times.length > 0));
  }

  /** The verdict on a pass; terminal when it wrote and the same plan will not be written again. */
  learn(verdict: Verdict, { plan, end, apply }: PassResult): Verdict {
    if (plan === null || end !== 'applied') return verdict;
    if (verdict.kind === 'terminal') {
      const failed = findUnfinished(apply?.outcomes ?? []).map(({ step }) => formatStepKey(step));
      if (failed.length > 0) this.#stalled = { steps: new Set(failed), verdict };
    }
    if (verdict.reason !== 'NotConverging') return verdict;
    const steps = plan.steps.map(formatStepKey);
    const key = steps.join('\n');
    this.#unconverged = { key, times: this.#unconverged.key === key ? this.#unconverged.times + 1 : 1 };
    if (this.#unconverged.times < mostAttempts) return verdict;
    this.#stalled = { steps: new Set(steps), verdict: { ...verdict, kind: 'terminal' } };
    return this.#stalled.verdict;
  }

  /** Revision, settings or token are new: plans that failed for good may be written again. */
  forgetStall(): void {
    this.#stalled = null;
  }
}

function held(reason: Verdict['reason'], message: string, waitMs?: number): Verdict {
  return { kind: 'held', reason, message, waitMs };
}
