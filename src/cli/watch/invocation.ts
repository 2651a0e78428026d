import type { Terminal } from '../command.ts';
import type { PrintedSecrets } from '../secrets-from.ts';
import type { RawValues, Settings } from '../settings.ts';

/** `reconcile --watch`: settings are loaded here, and again on SIGHUP, so that bad ones stall the loop and not the process. */
export interface WatchInvocation {
  readonly operands: readonly string[];
  readonly flags: RawValues;
  readonly load: () => Promise<Settings>;
  readonly renewSecrets: PrintedSecrets['renew'];
  readonly terminal: Terminal;
}

/** The same, with the settings as they were loaded. */
export interface WatchContext extends WatchInvocation {
  readonly settings: Settings;
}
