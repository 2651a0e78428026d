import type { Outcome } from '../apply/outcome.ts';
import type { Clock } from '../ports.ts';
import type { LoopObserver } from './observer.ts';

/** Measures how long gaps are open: from the delete that opens one to the create that closes it. */
export function createGapClock(clock: Clock, observer: LoopObserver): { ended(outcome: Outcome): void } {
  const opened = new Map<string, number>();
  return {
    ended({ step, outcome }) {
      if (step.gap === null || outcome !== 'done') return;
      if (step.type === 'delete' && !opened.has(step.gap)) opened.set(step.gap, clock.now());
      const from = opened.get(step.gap);
      if (step.type !== 'create' || from === undefined) return;
      observer.gapClosed(clock.now() - from);
      opened.delete(step.gap);
    },
  };
}
