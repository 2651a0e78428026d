import type { Clock } from '../ports.ts';
import { shortenRevision } from './conditions.ts';
import type { LoopParts } from './loop-parts.ts';
import type { PassEnding, Verdict } from './pass-ending.ts';
import type { LoopRecord } from './record.ts';

/** How a revision stands. `kept`: the command ended with 0 after all that was written. `lost`: its time is over. */
export type TrialWord = 'waiting' | 'kept' | 'lost';

interface Current {
  readonly revision: string;
  /** Monotonic, ms. */
  readonly until: number;
  readonly over: AbortController;
  word: TrialWord;
  said: string;
}

type Parts = Pick<LoopParts, 'clock' | 'logger' | 'triggers' | 'confirm'>;
/** What a record holds of the time of the revision that waits. */
export type TrialTime = Pick<LoopRecord, 'pendingUntil' | 'graceGiven'>;

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
  /** The packet filter was last seen not to hold it: when to look again, ms. Nothing confirms it before. */
  lookMs: number | undefined;
  /** How far what it changed is taken back, once its time is over. */
  back = 'was taken back by an earlier process, whose log says what stayed';

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

  /** A revision is tried out from its beginning, perhaps one that failed before. */
  begin(): void {
    this.#current?.over.abort();
    this.#current = null;
  }

  /** A pass over it has ended: what it wrote has to be confirmed too, within the same time (`time` so far). Gives that from now on. */
  passEnded(revision: string, end: PassEnding, withinMs: number, time: TrialTime): TrialTime {
    const { clock, logger } = this.#parts;
    const word = this.wordOn(revision);
    if (end.result?.kernel) this.lookMs = end.result.kernel.report.state === 'differs' ? 5000 : undefined;
    const wrote = (end.outcomes ?? []).some(({ outcome }) => outcome === 'done' || outcome === 'unknown');
    if (word === 'lost' || (word !== null && !wrote)) return time;
    const filterMs = expectFilter(end, wrote);
    const now = clock.wallTime();
    const next = word === 'waiting' ? time : chooseTime(word === null ? time : wholeTime, now + filterMs, withinMs);
    const waitMs = (next.pendingUntil ?? now) - now;
    const before = this.#current;
    before?.over.abort();
    const until = before !== null && word === 'waiting' ? before.until : clock.now() + waitMs;
    this.#current = { revision, until, over: new AbortController(), word: 'waiting', said: '' };
    if (word === null) logger.info('A revision waits to be confirmed', { revision, withinMs: waitMs - filterMs });
    void this.#ask(this.#current, filterMs);
    return next;
  }

  /** The verdict on a revision whose time is over. */
  refuse(revision: string): Verdict {
    const why = this.wordOn(revision) === null || this.said === '' ? '' : ` (${this.said})`;
    const message = `${shortenRevision(revision)} was not confirmed in time${why}, and is not tried again; what it changed ${this.back}`;
    return { kind: 'terminal', reason: 'NotConfirmed', message, revision };
  }

  async #ask(current: Current, filterMs: number): Promise<void> {
    const { clock, logger, triggers, confirm } = this.#parts;
    const { revision, until, over } = current;
    const signal = AbortSignal.any([this.#stop, over.signal]);
    await clock.sleep(filterMs, signal);
    const wrong = await askUntilConfirmed(clock, {
      ask: async (leftMs) => (this.lookMs ? 'the packet filter does not hold it' : await confirm(leftMs, signal)),
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

/** ms until the packet filter is expected to hold what was written; 0 where a look has shown it. */
function expectFilter({ result }: Pick<PassEnding, 'result'>, wrote: boolean): number {
  if (result?.kernel?.report.state === 'enforced') return 0;
  return result?.apply?.enforcedInMs ?? (wrote ? 0 : unknownFilterMs);
}

const wholeTime: TrialTime = { pendingUntil: null, graceGiven: false };

/** The time of a revision that may have begun in another process; the filter holds it `from` then on (ms since 1970). */
function chooseTime({ pendingUntil, graceGiven }: TrialTime, from: number, withinMs: number): TrialTime {
  // A clock that was set back adds nothing.
  const until = Math.min(pendingUntil ?? Number.POSITIVE_INFINITY, from + withinMs);
  const fair = from + Math.min(fairMs, withinMs);
  // Once: a process that is moved again and again goes back all the same.
  const isGraced = !graceGiven && until < fair;
  return { pendingUntil: Math.round(isGraced ? fair : until), graceGiven: graceGiven || isGraced };
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
