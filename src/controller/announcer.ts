import type { Verdict } from './failure.ts';
import type { LoopObserver } from './observer.ts';
import type { Status } from './status.ts';

/** Neither good nor broken: waiting for content to stand still, for the process to end, for another replica. */
const passing: ReadonlySet<Verdict['reason']> = new Set(['Settling', 'Stopped', 'Standby']);

/** Tells people about a change, not about a state: once broken, once recovered, and what was applied. */
export class Announcer {
  readonly #observer: LoopObserver;
  #told: string | null = null;

  constructor(observer: LoopObserver) {
    this.#observer = observer;
  }

  /** `verdict`: on the whole; `pass`: on what was done, which may be good while the newest revision is not in effect. */
  tell(verdict: Verdict, pass: Verdict, status: Status): void {
    const turn = { condition: status.conditions.Ready, status };
    if (!passing.has(verdict.reason)) {
      const before = this.#told;
      this.#told = verdict.kind === 'good' ? 'good' : verdict.reason;
      if (this.#told !== 'good' && before !== this.#told) this.#observer.turned({ what: 'broken', ...turn });
      if (this.#told === 'good' && before !== null && before !== 'good') {
        this.#observer.turned({ what: 'recovered', ...turn });
      }
    }
    if (pass.kind === 'good' && pass.reason === 'Applied') this.#observer.turned({ what: 'applied', ...turn });
  }
}
