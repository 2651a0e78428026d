import type { Clock } from '../ports.ts';
import type { LoopParts } from './loop-parts.ts';
import type { PassEnding } from './pass-ending.ts';

/**
 * How a revision stands. `kept`: the command ended with 0 after all that was written. `released`: it did, and the revision is not in
 * effect for another reason, so that a newer one may come. `lost`: its time is over.
 */
export type TrialWord = 'waiting' | 'kept' | 'released' | 'lost';

interface Current {
  readonly revision: string;
  /** Monotonic, ms. */
  readonly until: number;
  /** The same for the record, ms since 1970. */
  readonly recorded: number;
  readonly over: AbortController;
  word: TrialWord;
  said: string;
}

type Parts = Pick<LoopParts, 'clock' | 'logger' | 'triggers' | 'confirm'>;

const againMs = 2000;
/** Whoever takes over has time for one run of the command, however late that is. */
const fairMs = 30_000;
// What was written before this process began: the filter follows 1,000 rules in about ten seconds.
const unknownFilterMs = 10_000;

/** The wait of a revision for the command that confirms it. The loop goes on meanwhile, and is woken at its end. */
export class Trial {
  readonly #parts: Parts;
  readonly #stop: AbortSignal;
  #current: Current | null = null;

  constructor(parts: Parts, stop: AbortSignal) {
    this.#parts = parts;
    this.#stop = stop;
  }

  /** How this revision stands; null: no pass over it has ended yet. */
  wordOn(revision: string | null): TrialWord | null {
    return this.#current?.revision === revision ? (this.#current?.word ?? null) : null;
  }

  /** What the command last came to. */
  get said(): string {
    return this.#current?.said ?? '';
  }

  /** When the time of the revision that waits is over (ms since 1970); null: none waits. */
  get confirmBy(): number | null {
    const { clock } = this.#parts;
    return this.#current?.word === 'waiting' ? clock.wallTime() + this.#current.until - clock.now() : null;
  }

  /** When the time of this revision is over, for the record (ms since 1970); null: no pass over it has ended yet. */
  timeOf(revision: string | null): number | null {
    return this.wordOn(revision) === null ? null : (this.#current?.recorded ?? null);
  }

  /** This revision is tried out from its beginning, though it once failed. */
  begin(revision: string): void {
    if (this.wordOn(revision) === 'lost') this.#current = null;
  }

  /** A newer revision may take its place. */
  release(): void {
    if (this.#current?.word === 'kept') this.#current.word = 'released';
  }

  /**
   * A pass over it has ended: what it wrote has to be confirmed too, within the same time, which may have begun in another process
   * (`recorded`, ms since 1970). How the revision stands now.
   */
  passEnded(
    revision: string,
    { outcomes = [], result }: PassEnding,
    { withinMs, recorded }: { readonly withinMs: number; readonly recorded: number | null },
  ): TrialWord | null {
    const { clock, logger } = this.#parts;
    const word = this.wordOn(revision);
    const wrote = outcomes.some(({ outcome }) => outcome === 'done' || outcome === 'unknown');
    if (isOver(word, wrote)) return word;
    const expectedMs = result?.apply?.enforcedInMs ?? (wrote ? 0 : unknownFilterMs);
    const filterMs = result?.kernel === undefined ? expectedMs : 0;
    const leftMs = word === null && recorded !== null ? recorded - clock.wallTime() - filterMs : withinMs;
    // A clock that was set back adds nothing.
    const waitMs = filterMs + Math.min(withinMs, Math.max(leftMs, fairMs));
    const fresh = { until: clock.now() + waitMs, recorded: Math.round(clock.wallTime() + waitMs) };
    const { until, recorded: kept } = word === 'waiting' ? (this.#current ?? fresh) : fresh;
    this.#current?.over.abort();
    this.#current = { revision, until, recorded: kept, over: new AbortController(), word: 'waiting', said: '' };
    if (word === null) logger.info('A revision waits to be confirmed', { revision, withinMs: waitMs - filterMs });
    void this.#ask(this.#current, filterMs);
    return 'waiting';
  }

  async #ask(current: Current, filterMs: number): Promise<void> {
    const { clock, logger, triggers, confirm } = this.#parts;
    const { revision, until, over } = current;
    const signal = AbortSignal.any([this.#stop, over.signal]);
    await clock.sleep(filterMs, signal);
    const wrong = await askUntilConfirmed(clock, {
      ask: (leftMs) => confirm(leftMs, signal),
      leftMs: () => until - clock.now(),
      signal,
      tell: (detail) => {
        logger.warn('A revision is not confirmed yet', { revision, detail });
        current.said = detail;
      },
    });
    if (signal.aborted) return;
    current.word = wrong === null ? 'kept' : 'lost';
    triggers.wake('confirmation');
  }
}

/** A command that confirms, by what it comes to (null: it ended with 0), and how long there is to ask it. */
interface Asking {
  readonly ask: (leftMs: number) => Promise<string | null>;
  readonly leftMs: () => number;
  readonly signal: AbortSignal;
  /** Told what is wrong, when that is another thing than before. */
  readonly tell: (wrong: string) => void;
}

/** A program that has less time cannot answer: what was said before tells more than that it took too long. */
const shortestMs = 50;

/** Asks again and again until the answer is null, the time is over or the signal aborts; gives the last answer. */
export async function askUntilConfirmed(clock: Clock, { ask, leftMs, signal, tell }: Asking): Promise<string | null> {
  let said = '';
  while (leftMs() > (said === '' ? 0 : shortestMs) && !signal.aborted) {
    const wrong = await ask(leftMs());
    if (wrong === null || signal.aborted) return wrong;
    if (wrong !== said) tell(wrong);
    said = wrong;
    await clock.sleep(Math.min(againMs, Math.max(0, leftMs())), signal);
  }
  return said;
}

/** Nothing is to be confirmed anew: nothing was written, or its time was over before. */
function isOver(word: TrialWord | null, wrote: boolean): boolean {
  return word === 'lost' || (word !== null && !wrote);
}
