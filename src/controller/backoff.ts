import type { Clock } from '../ports.ts';
import type { Verdict } from './pass-ending.ts';
import { patientTriggers, type Trigger } from './trigger.ts';

/** First and longest wait after a transient failure, ms. */
const [backoffMs, maxBackoffMs] = [1000, 300_000];
/** A server that asks for more than this is asked again all the same. */
const longestAskedMs = 3_600_000;

/** How long the loop waits after transient failures. It holds for what was tried: another revision is tried at once. */
export class Backoff {
  readonly #clock: Clock;
  /** Transient failures in a row, of the same revision. */
  failures = 0;
  #retryAt = 0;
  #tried: { readonly revision: string; readonly complained: boolean } | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** ms until the next try; 0 when nothing holds it back. */
  leftMs(): number {
    return Math.max(0, this.#retryAt - this.#clock.now());
  }

  /** Begins to try a revision; false: it waits after a failure of its own, the source is no better, and nobody asks. */
  begin(revision: string, complained: boolean, triggers: ReadonlySet<Trigger>): boolean {
    const before = this.#tried;
    const isSame = before?.revision === revision;
    const isAsked = [...triggers].some((trigger) => !patientTriggers.has(trigger));
    if (this.leftMs() > 0 && isSame && (complained || !before.complained) && !isAsked) return false;
    if (before !== null && !isSame) this.failures = 0;
    this.#tried = { revision, complained };
    return true;
  }

  ended(verdict: Verdict): void {
    if (verdict.kind !== 'transient') {
      this.failures = 0;
      this.#retryAt = 0;
      return;
    }
    this.failures += 1;
    const askedMs = Math.min(verdict.askedMs ?? 0, longestAskedMs);
    // Doubled with each failure in a row, randomised, at least what the server asked.
    const ceiling = Math.min(maxBackoffMs, backoffMs * 2 ** Math.min(this.failures - 1, 30));
    this.#retryAt = this.#clock.now() + Math.max(askedMs, Math.round(ceiling * (0.5 + 0.5 * this.#clock.random())));
  }
}

/** A tenth of jitter to either side, so that many sidecars do not ask one server in step. `chance` in [0, 1). */
export function pickInterval(intervalMs: number, chance: number): number {
  return Math.round(intervalMs * (0.9 + 0.2 * chance));
}
