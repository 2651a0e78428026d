import type { Clock, Logger } from '../ports.ts';
import type { PassEnding } from './pass-ending.ts';
import type { Triggers } from './trigger.ts';

/** What a trial needs of the loop. */
export interface TrialParts {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly triggers: Pick<Triggers, 'wake'>;
  /** Runs the command that confirms, once. Null: it ended with 0; otherwise what happened, for a person. Never rejects. */
  readonly confirm: (timeoutMs: number, signal: AbortSignal) => Promise<string | null>;
}

/**
 * How a revision stands. `kept`: the command ended with 0 after all that was written. `released`: it did, and the revision is not in
 * effect for another reason, so that a newer one may come. `lost`: its time is over.
 */
export type TrialWord = 'waiting' | 'kept' | 'released' | 'lost';

interface Current {
  readonly revision: string;
  /** Monotonic, ms. */
  readonly until: number;
  readonly over: AbortController;
  word: TrialWord;
  said: string;
}

const againMs = 2000;
// What was written before this process began: the filter follows 1,000 rules in about ten seconds.
const unknownFilterMs = 10_000;

/** The wait of a revision for the command that confirms it. The loop goes on meanwhile, and is woken at its end. */
export class Trial {
  readonly #parts: TrialParts;
  readonly #stop: AbortSignal;
  #current: Current | null = null;

  constructor(parts: TrialParts, stop: AbortSignal) {
    this.#parts = parts;
    this.#stop = stop;
  }

  /** How this revision stands; null: no pass over it has ended yet. */
  wordOn(revision: string | null): TrialWord | null {
    return this.#current?.revision === revision ? (this.#current?.word ?? null) : null;
  }

  /** When its time is over (ms since 1970), and what the command last came to. */
  describe(): { readonly until: number; readonly said: string } | null {
    const { clock } = this.#parts;
    const current = this.#current;
    return current === null ? null : { until: clock.wallTime() + current.until - clock.now(), said: current.said };
  }

  /** This revision is tried out from its beginning, though it once failed. */
  begin(revision: string): void {
    if (this.wordOn(revision) === 'lost') this.#current = null;
  }

  /** A newer revision may take its place. */
  release(): void {
    if (this.#current?.word === 'kept') this.#current.word = 'released';
  }

  /** A pass over it has ended: what it wrote has to be confirmed too, within the same time. How the revision stands now. */
  passEnded(revision: string, { outcomes = [], result }: PassEnding, withinMs: number): TrialWord | null {
    const { clock, logger } = this.#parts;
    const word = this.wordOn(revision);
    const wrote = outcomes.some(({ outcome }) => outcome === 'done' || outcome === 'unknown');
    if (isOver(word, wrote)) return word;
    const expectedMs = result?.apply?.enforcedInMs ?? (wrote ? 0 : unknownFilterMs);
    const filterMs = result?.kernel === undefined ? expectedMs : 0;
    const until = (word === 'waiting' ? this.#current?.until : undefined) ?? clock.now() + filterMs + withinMs;
    this.#current?.over.abort();
    this.#current = { revision, until, over: new AbortController(), word: 'waiting', said: '' };
    if (word === null) logger.info('A revision waits to be confirmed', { revision, withinMs });
    void this.#ask(this.#current, filterMs);
    return 'waiting';
  }

  async #ask(current: Current, filterMs: number): Promise<void> {
    const { clock, logger, triggers, confirm } = this.#parts;
    const { revision, until, over } = current;
    const signal = AbortSignal.any([this.#stop, over.signal]);
    const left = (): number => Math.max(0, until - clock.now());
    let wrong: string | null = null;
    let leftMs = 0;
    await clock.sleep(filterMs, signal);
    do {
      wrong = await confirm(Math.max(1, left()), signal);
      if (signal.aborted) return;
      if (wrong === null) break;
      if (wrong !== current.said) logger.warn('A revision is not confirmed yet', { revision, detail: wrong });
      current.said = wrong;
      leftMs = left();
      await clock.sleep(Math.min(againMs, leftMs), signal);
    } while (leftMs > againMs && !signal.aborted);
    if (signal.aborted) return;
    current.word = wrong === null ? 'kept' : 'lost';
    triggers.wake('confirmation');
  }
}

/** Nothing is to be confirmed anew: nothing was written, or its time was over before. */
function isOver(word: TrialWord | null, wrote: boolean): boolean {
  return word === 'lost' || (word !== null && !wrote);
}
