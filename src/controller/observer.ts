import type { Outcome } from '../apply/outcome.ts';
import type { Boundary } from '../model/state.ts';
import type { Clock } from '../ports.ts';
import type { PassEnding, Verdict } from './pass-ending.ts';
import type { PassView, Status } from './status.ts';

/** Hears what happens, for metrics. Calls return at once and never throw. */
export interface LoopObserver {
  /** A part of a pass took so long. */
  phaseEnded(phase: 'source' | 'plan' | 'apply', ms: number): void;
  passEnded(pass: PassView): void;
  /** A gap was open for that long. */
  gapClosed(ms: number): void;
}

/** What people are told, never the same twice in a row: broken, recovered, applied; and rules that begin or end soon, or just did. */
export interface Turn {
  readonly what: 'broken' | 'recovered' | 'applied' | 'boundary-soon' | 'boundary-passed';
  readonly status: Status;
  /** Of boundaries; no others have any. */
  readonly rules?: readonly Boundary[];
}

/** Neither good nor broken: waiting for stable content, to be confirmed, for its turn, for the process to end, for another replica. */
const passing = new Set<Verdict['reason']>(['Settling', 'AwaitingConfirmation', 'Waiting', 'Stopped', 'Standby']);

/** Tells people at the end of a pass of changes. `isNew`: another revision is in force. `soon`: rules to tell of beforehand. */
export function createAnnouncer(notify: (turn: Turn) => void) {
  let told: string | null = null;
  return (
    { complaint, verdict: pass, turned = [] }: PassEnding,
    { isNew, soon, status }: { readonly isNew: boolean; readonly soon: readonly Boundary[]; readonly status: Status },
  ): void => {
    const verdict = complaint ?? pass;
    if (turned.length > 0) notify({ what: 'boundary-passed', rules: turned, status });
    if (soon.length > 0) notify({ what: 'boundary-soon', rules: soon, status });
    if (!passing.has(verdict.reason)) {
      const before = told;
      told = verdict.kind === 'good' ? 'good' : verdict.reason;
      if (told !== 'good' && before !== told) notify({ what: 'broken', status });
      if (told === 'good' && before !== null && before !== 'good') notify({ what: 'recovered', status });
    }
    if (pass.kind === 'good' && (pass.reason === 'Applied' || isNew)) notify({ what: 'applied', status });
  };
}

/** Measures, outcome by outcome, how long gaps are open: from the delete that opens one to the create that closes it. */
export function createGapClock(clock: Clock, observer: LoopObserver): (outcome: Outcome) => void {
  const opened = new Map<string, number>();
  return ({ step, outcome }) => {
    if (step.gap === null || outcome !== 'done') return;
    if (step.type === 'delete' && !opened.has(step.gap)) opened.set(step.gap, clock.now());
    const from = opened.get(step.gap);
    if (step.type !== 'create' || from === undefined) return;
    observer.gapClosed(clock.now() - from);
    opened.delete(step.gap);
  };
}
