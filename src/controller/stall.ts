import type { PassResult } from '../pass/pass.ts';
import { formatStepKey } from '../plan/plan.ts';
import { findUnfinished, type Verdict } from './failure.ts';

/** Steps, by what they do, that are not to be written again while nothing changes, and why. */
export interface Stalled {
  readonly steps: ReadonlySet<string>;
  readonly verdict: Verdict;
}

// Passes with the same plan that may end without convergence.
const mostAttempts = 3;

/** Remembers what the server refuses for good, or what never converges. */
export class StallMemory {
  #stalled: Stalled | null = null;
  #unconverged: { readonly key: string; readonly times: number } = { key: '', times: 0 };

  get stalled(): Stalled | null {
    return this.#stalled;
  }

  /** Revision, settings or token are new: what failed may work now. */
  forget(): void {
    this.#stalled = null;
  }

  /** The verdict on a pass that wrote; terminal when the same plan will not be written again. */
  judged(verdict: Verdict, result: PassResult): Verdict {
    if (result.plan === null || result.end !== 'applied') return verdict;
    const final: Verdict = { ...verdict, kind: 'terminal' };
    if (verdict.kind === 'terminal') {
      const failed = findUnfinished(result.apply?.outcomes ?? []).map(({ step }) => formatStepKey(step));
      if (failed.length > 0) this.#stalled = { steps: new Set(failed), verdict };
    }
    if (verdict.reason !== 'NotConverging') return verdict;
    const steps = result.plan.steps.map(formatStepKey);
    const key = steps.join('\n');
    this.#unconverged = { key, times: this.#unconverged.key === key ? this.#unconverged.times + 1 : 1 };
    if (this.#unconverged.times < mostAttempts) return verdict;
    this.#stalled = { steps: new Set(steps), verdict: final };
    return final;
  }
}
