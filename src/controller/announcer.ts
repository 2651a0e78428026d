import type { Verdict } from './failure.ts';
import type { LoopObserver, TurningRule } from './observer.ts';
import type { Status } from './status.ts';

/** Neither good nor broken: waiting for stable content, to be confirmed, for its turn, for the process to end, for another replica. */
const passing: ReadonlySet<Verdict['reason']> = new Set([
  ...(['Settling', 'AwaitingConfirmation', 'Waiting', 'Stopped', 'Standby'] as const),
]);

export interface JudgedPass {
  /** On the whole. */
  readonly verdict: Verdict;
  /** On what was done, which may be good while the newest revision is not in effect. */
  readonly pass: Verdict;
  /** Another revision than the one before is in effect now, though perhaps nothing had to be written for it. */
  readonly isNew: boolean;
  /** Rules that began or ended by themselves. */
  readonly turned: readonly TurningRule[];
  /** Rules of which people are told now that they begin or end soon. */
  readonly soon: readonly TurningRule[];
}

/** Tells people about a change, not about a state: once broken, once recovered, and what was applied. */
export class Announcer {
  readonly #observer: LoopObserver;
  #told: string | null = null;

  constructor(observer: LoopObserver) {
    this.#observer = observer;
  }

  tell({ verdict, pass, isNew, turned, soon }: JudgedPass, status: Status): void {
    const turn = { condition: status.conditions.Ready, status };
    if (turned.length > 0) this.#observer.turned({ what: 'boundary-passed', rules: turned, ...turn });
    if (soon.length > 0) this.#observer.turned({ what: 'boundary-soon', rules: soon, ...turn });
    if (!passing.has(verdict.reason)) {
      const before = this.#told;
      this.#told = verdict.kind === 'good' ? 'good' : verdict.reason;
      if (this.#told !== 'good' && before !== this.#told) this.#observer.turned({ what: 'broken', ...turn });
      if (this.#told === 'good' && before !== null && before !== 'good') {
        this.#observer.turned({ what: 'recovered', ...turn });
      }
    }
    if (pass.kind === 'good' && (pass.reason === 'Applied' || isNew)) {
      this.#observer.turned({ what: 'applied', ...turn });
    }
  }
}
