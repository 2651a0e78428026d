import type { Logger } from '../../ports.ts';
import type { SharedParts, Terminal } from '../command.ts';
import type { PrintedSecrets } from '../secrets-from.ts';
import type { RawValues, Settings } from '../settings.ts';
import type { openSource } from './source.ts';

/** What several controllers of one process have in common. */
export interface SharedWatch extends SharedParts {
  readonly openSource: typeof openSource;
  /** Why a revision must not be begun yet; null: it may be. */
  readonly hold: (revision: string) => string | null;
  /** Runs a pass when there is room for it. */
  readonly inTurn: <T>(pass: () => Promise<T>) => Promise<T>;
  /** Its log, that says whose it is. */
  readonly label: (logger: Logger) => Logger;
}

/** `reconcile --watch`: settings are loaded here, and again on SIGHUP, so that bad ones stall the loop and not the process. */
export interface WatchInvocation {
  readonly operands: readonly string[];
  readonly flags: RawValues;
  readonly load: () => Promise<Settings>;
  readonly renewSecrets: PrintedSecrets['renew'];
  readonly terminal: Terminal;
  /** Absent: it is alone in its process. */
  readonly shared?: SharedWatch;
}

/** The same, with the settings as they were loaded. */
export interface WatchContext extends WatchInvocation {
  readonly settings: Settings;
}
