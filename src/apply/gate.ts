import type { FilterModel } from '../model/profile.ts';
import type { Clock } from '../ports.ts';

/** What may run: any write, or one that closes a gap (or opens it to its end), which no pause and no pace holds back. */
export type Lane = 'normal' | 'gap';

/**
 * When the next write may be sent. Four things hold writes back: a pause that the server asked for, `--pace`, the rebuild of
 * the packet filter, and (before a gap is opened) its backlog.
 */
export interface Gate {
  /** ms until a write in that lane may be sent; 0: now. */
  waitMs(lane: Lane): number;
  /** ms until the backlog lets a gap be opened; 0: now. */
  gapWaitMs(): number;
  /** Whether the backlog is so far up that gaps should go before rules that need none. */
  backlogRising(): boolean;
  /** Counts a write that is sent now. */
  sent(): void;
  /** Counts a change that the server stored and its filter still has to follow. */
  stored(): void;
  /** All writes wait that long. */
  pause(ms: number): void;
  /** The filter is being rebuilt from that many rules: all writes wait, gaps too. Returns the expected time in ms. */
  rebuild(rules: number): number;
  /** ms until the filter is expected to hold all that was stored; null when the server's answer is the enforcement. */
  enforcedInMs(): number | null;
}

/** The longest backlog, in ms of the filter's work, at which a gap is opened. */
const gapBacklogMs = 1000;

/** A gate for one apply. `pace` is in writes a second. */
export function createGate(clock: Clock, filter: FilterModel | null, pace: number | null): Gate {
  let pausedUntil = 0;
  let rebuiltAt = 0;
  let nextAt = 0;
  /** The filter works through its queue at a steady rate, so the queue is one moment: when it will be empty. */
  let emptyAt = 0;
  const backlogMs = (): number => Math.max(0, emptyAt - clock.now());
  return {
    waitMs: (lane) => {
      const until = lane === 'gap' ? rebuiltAt : Math.max(pausedUntil, rebuiltAt, nextAt);
      return Math.max(0, until - clock.now());
    },
    gapWaitMs: () => Math.max(0, backlogMs() - gapBacklogMs),
    backlogRising: () => backlogMs() > gapBacklogMs / 2,
    sent: () => {
      if (pace !== null) nextAt = Math.max(nextAt, clock.now()) + 1000 / pace;
    },
    stored: () => {
      if (filter !== null) emptyAt = Math.max(emptyAt, clock.now()) + 1000 / filter.rate;
    },
    pause: (ms) => {
      pausedUntil = Math.max(pausedUntil, clock.now() + ms);
    },
    rebuild: (rules) => {
      if (filter === null) return 0;
      const ms = Math.max(filter.rebuildFloorMs, (rules / filter.rate) * 1000);
      rebuiltAt = Math.max(rebuiltAt, clock.now() + ms);
      emptyAt = rebuiltAt;
      return ms;
    },
    enforcedInMs: () => (filter === null ? null : Math.round(backlogMs())),
  };
}
