import type { ControllerMetrics } from '../../adapters/metrics/metrics.ts';
import type { GitSettings } from '../../adapters/source/git.ts';
import type { DirectoryWake, WakeSettings } from '../../adapters/source/watch.ts';
import type { LoopParts } from '../../controller/loop-parts.ts';
import type { Status } from '../../controller/status.ts';
import type { Source } from '../../ports.ts';
import type { Invocation, RawValues, Settings, SharedParts } from '../command.ts';
import type { PrintedSecrets } from '../secrets-from.ts';

/** Where the manifests come from. */
export interface WatchedSource {
  readonly source: Source;
  /** The directory of the manifests; null when they come from Git. */
  readonly root: string | null;
  /** Wakes when the directory may have changed; null: it comes from Git. */
  readonly follow: (settings: WakeSettings) => DirectoryWake | null;
  /** Settings that the source's content may depend on have changed. */
  readonly forget: () => void;
}

/** Opens the source that the settings name; clones lie in `stateFolder`. */
export type OpenSource = (
  context: WatchContext,
  stateFolder: string,
  references: GitSettings['references'],
) => Promise<WatchedSource>;

/** What several controllers of one process have in common. */
export interface SharedWatch extends SharedParts, Required<Pick<LoopParts, 'hold'>> {
  readonly openSource: OpenSource;
  /** The revisions that failed here before, while the settings cannot be used; where a lease keeps them, none. */
  readonly readStuck: () => Promise<Pick<Status['revisions'], 'failed' | 'stuck'>>;
  /** Runs a pass when there is room for it. */
  readonly inTurn: <T>(pass: () => Promise<T>) => Promise<T>;
}

/** `reconcile --watch`: settings are loaded here, and again on SIGHUP, so that bad ones stall the loop and not the process. */
export interface WatchInvocation extends Pick<Invocation, 'operands' | 'terminal'> {
  readonly flags: RawValues;
  readonly load: () => Promise<Settings>;
  readonly renewSecrets: PrintedSecrets['renew'];
  /** Absent: it is alone in its process. */
  readonly shared?: SharedWatch;
}

/** The same, with the settings as they were loaded. */
export interface WatchContext extends WatchInvocation {
  readonly settings: Settings;
  readonly metrics: ControllerMetrics;
}
