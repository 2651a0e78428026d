import { statSync } from 'node:fs';
import path from 'node:path';
import { type FSWatcher, watch } from 'chokidar';
import { getErrorCode } from '../../model/result.ts';
import type { Logger } from '../../ports.ts';

/** What tells that a directory may have changed. Events are hints: what counts is what reading the directory gives. */
export interface DirectoryWatch {
  /** Events do not reach us any more (no watches or file handles left): only the rescan sees changes. */
  degraded(): boolean;
  /** Call at each rescan: watches again where the directory was replaced, which the old watch does not notice, or watching failed. */
  refresh(): void;
  close(): Promise<void>;
}

/** Test doors; the defaults are the real thing. */
export interface WatchSettings {
  readonly root: string;
  readonly logger: Logger;
  readonly onEvent: () => void;
  readonly open?: (root: string) => FSWatcher;
}

/** Watches a directory tree. Never throws and never ends the process: a watch that fails becomes `degraded`. */
export function watchDirectory(settings: WatchSettings): DirectoryWatch {
  const open = settings.open ?? openWatcher;
  let identity = identityOf(settings.root);
  let failed = false;
  let watcher = start();

  function start(): FSWatcher {
    const made = open(settings.root);
    made.on('all', settings.onEvent);
    made.on('error', (error) => {
      if (failed) return;
      failed = true;
      const code = getErrorCode(error, 'unknown');
      settings.logger.warn('The directory cannot be watched; changes are found by rescanning', { code });
      stop(made);
      settings.onEvent();
    });
    return made;
  }

  function stop(old: FSWatcher): void {
    void old.close().catch(() => undefined); // a watcher that failed may fail again while closing; nothing hangs on it
  }

  return {
    degraded: () => failed,
    refresh() {
      const now = identityOf(settings.root);
      if (now === identity && !failed) return;
      identity = now;
      stop(watcher);
      failed = false;
      watcher = start();
      settings.onEvent();
    },
    close: () => watcher.close(),
  };
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
  try {
    const found = statSync(root);
    return `${found.dev}:${found.ino}:${found.birthtimeMs}`;
  } catch {
    return '';
  }
}
