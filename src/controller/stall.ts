import type { PassResult } from '../pass.ts';
import type { Verdict } from './failure.ts';
import type { Held } from './gate.ts';
import { planKey } from './gate.ts';

/** A plan, by what it does, that is not to be written again while nothing changes, and why. */
export interface StalledPlan {
  readonly key: string;
  readonly hold: Held;
}

/** Remembers plans that the server refuses for good, or that never converge. */
export class StallMemory {
  #stalled: StalledPlan | null = null;
  #unconverged: { readonly key: string; readonly times: number } = { key: '', times: 0 };

  get stalled(): StalledPlan | null {
    return this.#stalled;
  }

  /** Revision, settings or token are new: what failed may work now. */
  forget(): void {
    this.#stalled = null;
  }

  /** The verdict on a pass that wrote; terminal when the same plan will not be written again. */
  judged(verdict: Verdict, result: PassResult, attempts: number): Verdict {
    if (result.plan === null || result.end !== 'applied') return verdict;
    const key = planKey(result.plan);
    const stalled = { key, hold: { reason: verdict.reason, message: verdict.message, terminal: true, waitMs: null } };
    if (verdict.kind === 'terminal') this.#stalled = stalled;
    if (verdict.reason !== 'NotConverging') return verdict;
    this.#unconverged = { key, times: this.#unconverged.key === key ? this.#unconverged.times + 1 : 1 };
    if (this.#unconverged.times < attempts) return verdict;
    this.#stalled = stalled;
    return { ...verdict, kind: 'terminal' };
  }
}
