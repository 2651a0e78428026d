import type { Clock } from '../ports.ts';
import type { Verdict } from './failure.ts';
import type { Trigger } from './trigger.ts';

/** First and longest wait after a transient failure, ms. */
const [backoffMs, maxBackoffMs] = [1000, 300_000];
/** A server that asks for more than this is asked again all the same. */
const longestAskedMs = 3_600_000;

/** Nobody asks for a look; of any other trigger somebody does. */
const patient: ReadonlySet<Trigger> = new Set<Trigger>(['interval', 'retry', 'file', 'released', 'stop']);

/** What the loop is about to work on. */
export interface Attempt {
  readonly revision: string;
  /** The source cannot be read, or its newest revision is not accepted. */
  readonly complained: boolean;
  readonly triggers: ReadonlySet<Trigger>;
}

/** How long the loop waits after transient failures. It holds for what was tried: another revision is tried at once. */
export class Backoff {
  readonly #clock: Clock;
  #failures = 0;
  #retryAt = 0;
  #tried: Pick<Attempt, 'revision' | 'complained'> | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Transient failures in a row, of the same revision. */
  get failures(): number {
    return this.#failures;
  }

  /** Whether a failure is waiting to be tried again. */
  get pending(): boolean {
    return this.#retryAt > 0;
  }

  /** ms until the next try; 0 when nothing holds it back. */
  leftMs(): number {
    return Math.max(0, this.#retryAt - this.#clock.now());
  }

  /** A failure's wait holds, unless the revision is another one, the source has come back, or somebody asks. */
  holds({ revision, complained, triggers }: Attempt): boolean {
    if (this.leftMs() === 0 || this.#tried?.revision !== revision) return false;
    if (this.#tried.complained && !complained) return false;
    return [...triggers].every((trigger) => patient.has(trigger));
  }

  /** Notes what is tried now; the failures of another revision do not count against it. */
  begin(tried: Pick<Attempt, 'revision' | 'complained'>): void {
    if (this.#tried !== null && this.#tried.revision !== tried.revision) this.#failures = 0;
    this.#tried = { revision: tried.revision, complained: tried.complained };
  }

  ended(verdict: Verdict): void {
    if (verdict.kind !== 'transient') {
      this.#failures = 0;
      this.#retryAt = 0;
      return;
    }
    this.#failures += 1;
    const { askedMs = 0 } = verdict;
    this.#retryAt =
      this.#clock.now() + pickBackoff(this.#failures, this.#clock.random(), Math.min(askedMs, longestAskedMs));
  }
}

/** A tenth of jitter to either side, so that many sidecars do not ask one server in step. `chance` in [0, 1). */
export function pickInterval(intervalMs: number, chance: number): number {
  return Math.round(intervalMs * (0.9 + 0.2 * chance));
}

/** The wait after the `failures`-th transient failure in a row: doubled each time, randomised, at least what the server asked. */
function pickBackoff(failures: number, chance: number, askedMs = 0): number {
  const ceiling = Math.min(maxBackoffMs, backoffMs * 2 ** Math.min(failures - 1, 30));
  return Math.max(askedMs, Math.round(ceiling * (0.5 + 0.5 * chance)));
}
