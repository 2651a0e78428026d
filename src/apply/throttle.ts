import { estimateRebuildMs, type FilterModel, isLossless } from '../model/profile.ts';
import type { Clock } from '../ports.ts';

/** What may run: any write, or one that closes a gap (or opens it to its end), which no pause and no pace holds back. */
export type Priority = 'normal' | 'gap';

/** The longest backlog, in ms of the filter's work, at which a gap is opened. */
const gapBacklogMs = 1000;

/** When the next write may be sent: after a pause that the server asked for, `pace` (writes a second), and what the filter needs. */
export function createThrottle(clock: Clock, filter: FilterModel | null, pace: number | null, slowness = 1) {
  let pausedUntil = 0;
  let nextAt = 0;
  const follower = followFilter(clock, filter, slowness);
  return {
    ...follower,
    /** ms until a write in that priority may be sent; 0: now. */
    waitMs: (priority: Priority): number => {
      const until = priority === 'gap' ? 0 : Math.max(pausedUntil, nextAt);
      return Math.max(follower.rebuildMs(), until - clock.now());
    },
    /** Counts a write that is sent now. */
    sent: (): void => {
      if (pace !== null) nextAt = Math.max(nextAt, clock.now()) + 1000 / pace;
    },
    /** All writes wait that long. */
    pause: (ms: number): void => {
      pausedUntil = Math.max(pausedUntil, clock.now() + ms);
    },
  };
}

/** How far the packet filter is behind what was stored. `slowness`: by how much it was slower than its model; it shortens no wait. */
function followFilter(clock: Clock, filter: FilterModel | null, slowness: number) {
  let rebuiltAt = 0;
  /** The filter works through its queue at steady rates, so the queue is one moment: when it will be empty. */
  let emptyAt = 0;
  /** The same moment for a filter that is as slow as the last one seen. */
  let expectedAt = 0;
  /** The longest rebuild that a change since may have led to, and when it would be over. */
  let perhapsMs = 0;
  let perhapsUntil = 0;
  const backlogMs = (): number => Math.max(0, emptyAt - clock.now());
  return {
    /** ms until the rebuild is over; 0: none is under way. */
    rebuildMs: (): number => Math.max(0, rebuiltAt - clock.now()),
    /** ms until the backlog lets a gap be opened; 0: now. */
    gapWaitMs: (): number => Math.max(0, backlogMs() - gapBacklogMs),
    /** Whether the backlog is so far up that gaps should go before rules that need none. */
    backlogRising: (): boolean => backlogMs() > gapBacklogMs / 2,
    /** Counts a change that the server stored and its filter still has to follow. */
    stored: (change: 'insert' | 'delete'): void => {
      if (filter === null) return;
      const ms = 1000 / (change === 'insert' ? filter.rate : filter.deleteRate);
      emptyAt = Math.max(emptyAt, clock.now()) + ms;
      expectedAt = Math.max(expectedAt, clock.now()) + ms * slowness;
      if (perhapsMs > 0) perhapsUntil = expectedAt + perhapsMs;
    },
    /** At the change stored last the filter may crash; nothing waits for its rebuild, but what is expected allows for it. */
    mayCrash: (rules: number): void => {
      if (filter === null) return;
      perhapsMs = Math.max(perhapsMs, estimateRebuildMs(filter, rules));
      perhapsUntil = expectedAt + perhapsMs;
    },
    /** Whether writes sent while the filter is rebuilt from that many rules still reach it. */
    isLossless: (rules: number): boolean => filter === null || isLossless(filter, rules),
    /**
     * The filter is rebuilt from that many rules: all writes wait, gaps too. `now`: it has begun; `after-backlog`: it begins
     * when the filter comes to the change that was stored last. Returns the expected ms until it is over.
     */
    rebuild: (rules: number, begins: 'now' | 'after-backlog'): number => {
      if (filter === null) return 0;
      const beginsAt = clock.now() + (begins === 'now' ? 0 : backlogMs());
      rebuiltAt = Math.max(rebuiltAt, beginsAt + estimateRebuildMs(filter, rules));
      emptyAt = rebuiltAt;
      expectedAt = rebuiltAt;
      return rebuiltAt - clock.now();
    },
    /** The rebuild is over: the filter was seen to hold all that is stored. */
    rebuilt: (): void => {
      const now = clock.now();
      rebuiltAt = Math.min(rebuiltAt, now);
      emptyAt = Math.min(emptyAt, now);
      expectedAt = Math.min(expectedAt, now);
      perhapsMs = 0;
      perhapsUntil = 0;
    },
    /** ms until the filter is expected to hold all that was stored; null when the server's answer is the enforcement. */
    enforcedInMs: (): number | null =>
      filter === null ? null : Math.ceil(Math.max(0, expectedAt - clock.now(), perhapsUntil - clock.now())),
  };
}
