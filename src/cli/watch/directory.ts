import { systemClock } from '../../adapters/clock.ts';
import { type WatchSettings, watchDirectory } from '../../adapters/source/watch.ts';
import type { Logger, Source } from '../../ports.ts';

/** Wakes the loop when the directory may have changed: by events, and by looking again whatever the events say. */
export interface DirectoryWake {
  degraded(): boolean;
  close(): Promise<void>;
}

// Editors and `cp -r` make bursts: one look for all of it.
const burstMs = 20;
// Without events this is all there is.
const degradedRescanMs = 2000;

/** How to watch. `open` is a test's own watcher. */
export interface WakeSettings {
  readonly rescanMs: number;
  readonly logger: Logger;
  readonly wake: () => void;
  readonly open?: WatchSettings['open'];
}

/** Starts watching and rescanning `root`. */
export function wakeOnChange(root: string, source: Source, settings: WakeSettings): DirectoryWake {
  const { rescanMs, logger, wake, open } = settings;
  const stop = new AbortController();
  let burst: NodeJS.Timeout | null = null;
  const watch = watchDirectory({
    root,
    logger,
    ...(open === undefined ? {} : { open }),
    onEvent: () => {
      burst ??= setTimeout(() => {
        burst = null;
        wake();
      }, burstMs);
    },
  });
  let seen: string | null = null;
  const scanning = (async () => {
    while (!stop.signal.aborted) {
      await systemClock.sleep(watch.degraded() ? Math.min(rescanMs, degradedRescanMs) : rescanMs, stop.signal);
      if (stop.signal.aborted) return;
      watch.refresh();
      const reading = await source.read(stop.signal).catch(() => null);
      if (reading === null) continue; // stopped while reading
      const now = reading.content?.revision ?? reading.problems.map((one) => one.code).join(' ');
      if (seen !== null && now !== seen) wake();
      seen = now;
    }
  })();
  return {
    degraded: () => watch.degraded(),
    async close() {
      stop.abort();
      if (burst !== null) clearTimeout(burst);
      await Promise.all([watch.close(), scanning]);
    },
  };
}
