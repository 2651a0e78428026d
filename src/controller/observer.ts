import type { Condition } from './conditions.ts';
import type { PassView, Status } from './status.ts';

/** Parts of a pass whose time is measured. */
export type Phase = 'source' | 'plan' | 'apply';

/** Hears what happens, for metrics and notifications. Calls return at once and never throw. */
export interface LoopObserver {
  phaseEnded(phase: Phase, ms: number): void;
  passEnded(pass: PassView, status: Status): void;
  /** A gap was open for that long. */
  gapClosed(ms: number): void;
  /** Ready changed its status or reason, something was applied, or rules begin or end. */
  turned(turn: Turn): void;
}

/**
 * What people are told: broken, recovered, or applied, never the same twice in a row; and that rules begin or end soon, or have just
 * begun or ended by themselves.
 */
export interface Turn {
  readonly what: 'broken' | 'recovered' | 'applied' | 'boundary-soon' | 'boundary-passed';
  readonly condition: Condition;
  readonly status: Status;
  /** Of boundaries; no others have any. */
  readonly rules?: readonly TurningRule[];
}

/** A rule that begins or ends at a time (ms since 1970). */
export interface TurningRule {
  readonly name: string;
  readonly what: 'begins' | 'ends';
  readonly at: number;
}

/** Several observers as one, each of which hears as much as it wants to. */
export function joinObservers(observers: readonly Partial<LoopObserver>[]): LoopObserver {
  return {
    phaseEnded: (phase, ms) => observers.forEach((one) => void one.phaseEnded?.(phase, ms)),
    passEnded: (pass, status) => observers.forEach((one) => void one.passEnded?.(pass, status)),
    gapClosed: (ms) => observers.forEach((one) => void one.gapClosed?.(ms)),
    turned: (turn) => observers.forEach((one) => void one.turned?.(turn)),
  };
}
