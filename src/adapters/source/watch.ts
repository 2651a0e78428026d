import { statSync } from 'node:fs';
import path from 'node:path';
import { type FSWatcher, watch } from 'chokidar';
import { attempt, getErrorCode } from '../../model/result.ts';
import type { Logger, Source } from '../../ports.ts';
import { systemClock } from '../clock.ts';

/** How a directory is watched. */
export interface WakeSettings {
  readonly rescanMs: number;
  readonly logger: Logger;
  readonly wake: () => void;
  /** A test's own watcher. */
  readonly open?: (root: string) => FSWatcher;
}

/** A directory that is watched until it is closed. */
export type DirectoryWake = ReturnType<typeof wakeOnChange>;

// Editors and `cp -r` make bursts: one look for all of it.
const burstMs = 20;
// Without events this is all there is.
const degradedRescanMs = 2000;

/** Wakes when a directory may have changed, by events and by reading it again. Never throws: a watch that fails becomes `degraded`. */
export function wakeOnChange(root: string, source: Source, settings: WakeSettings) {
  const { rescanMs, logger, wake, open = openWatcher } = settings;
  const stop = new AbortController();
  let burst: NodeJS.Timeout | null = null;
  const noteEvent = (): void => {
    burst ??= setTimeout(() => {
      burst = null;
      wake();
    }, burstMs);
  };
  let failed = false;
  const start = (): FSWatcher => {
    const made = open(root);
    made.on('all', noteEvent);
    made.on('error', (error) => {
      if (failed) return;
      failed = true;
      const code = getErrorCode(error, 'unknown');
      logger.warn('The directory cannot be watched; changes are found by rescanning', { code });
      drop(made);
      noteEvent();
    });
    return made;
  };
  let identity = identityOf(root);
  let watcher = start();
  /** Watches again where the directory was replaced, which the old watch does not notice, or watching failed. */
  const refresh = (): void => {
    const now = identityOf(root);
    if (now === identity && !failed) return;
    identity = now;
    drop(watcher);
    failed = false;
    watcher = start();
    noteEvent();
  };
  const rescan = async (): Promise<void> => {
    for (let seen: string | null = null; ; ) {
      await systemClock.sleep(failed ? Math.min(rescanMs, degradedRescanMs) : rescanMs, stop.signal);
      if (stop.signal.aborted) return;
      refresh();
      const reading = await source.read(stop.signal).catch(() => null);
      if (reading === null) continue; // stopped while reading
      const now = reading.content?.revision ?? reading.problems.map((one) => one.code).join(' ');
      if (seen !== null && now !== seen) wake();
      seen = now;
    }
  };
  const scanning = rescan();
  return {
    /** Events do not reach us any more (no watches or file handles left): only the rescan sees changes. */
    degraded: (): boolean => failed,
    async close(): Promise<void> {
      stop.abort();
      if (burst !== null) clearTimeout(burst);
      await Promise.all([watcher.close(), scanning]);
    },
  };
}

function drop(old: FSWatcher): void {
  void old.close().catch(() => undefined); // a watcher that failed may fail again while closing; nothing hangs on it
}

function openWatcher(root: string): FSWatcher {
  return watch(root, {
    ignoreInitial: true,
    followSymlinks: true,
    ignorePermissionErrors: true,
    // Kubernetes writes a volume's new content into `..2026_…` and then swaps the link `..data`: only the link matters.
    ignored: (file) => /^\.\.(?!data$)/.test(path.basename(file)),
  });
}

/** What the root is right now: a link's target included; empty when it is gone. */
function identityOf(root: string): string {
  return attempt(() => {
    const found = statSync(root);
    return `${found.dev}:${found.ino}:${found.birthtimeMs}`;
  }, '');
}
