import type { SecretBinding } from '../model/configuration.ts';
import type { FirstSeen } from '../ports.ts';
import type { PassEnding } from './pass-ending.ts';

/**
 * What decisions rest on. It belongs to the lease, not to a replica: whoever becomes the writer reads it, and uses nothing of
 * its own from before. Without a lease it lies in the state folder. It holds no content and no secret (only names): content is read again
 * from the source by its revision.
 */
export interface LoopRecord {
  /** The revision last fully in effect, and when (ms since 1970). */
  readonly appliedRevision: string | null;
  readonly appliedAt: number | null;
  /** The last good revision, last begun to be written; in force while a newer one is invalid or the source is gone. */
  readonly inForceRevision: string | null;
  /** The revision that was confirmed last, and the one that waits for it. */
  readonly confirmedRevision: string | null;
  readonly pendingRevision: string | null;
  /** When the time of that one is over (ms since 1970); null: it does not run yet. */
  readonly pendingUntil: number | null;
  /** Somebody who took over was given time for one run of the command: nobody is again. */
  readonly graceGiven: boolean;
  /** An earlier record could not be read, so that nobody knows which revision waited. Until one is in effect. */
  readonly isLost: boolean;
  /**
   * Those that nobody confirmed since another one was confirmed; a branch may be set back to each of them. The last one is taken
   * back while it is the pending one too.
   */
  readonly givenUp: readonly string[];
  /** Revisions that failed here: an apply of theirs ended in error, or did not converge. The newest last. */
  readonly failed: readonly string[];
  /** Digest of what the applied revision asked for then; with other values or settings it asks for something else. */
  readonly appliedDesired: string | null;
  /** What it says of revisions was written by a process with our token, and not by somebody who may only write the Lease. */
  readonly isSealed: boolean;
  /** The operator's secrets that it sent, and where to: these go there again without a binding. */
  readonly sentSecrets: readonly SecretBinding[];
  /** The time for which its rules were last sorted, by a clock that agreed with the server's (ms since 1970). */
  readonly agreedAt: number | null;
  /** People were told beforehand of what begins or ends up to here (ms since 1970). */
  readonly toldUntil: number;
  /** Number of live rules after the last good pass. */
  readonly knownRules: number | null;
  /** The holder is asked not to write. */
  readonly suspended: boolean;
  /** How many steps would undo the drift that was found and left alone. */
  readonly drift: number;
  /** When the commits named here, and the newest, were first seen (ms since 1970): the time at which signatures are checked. */
  readonly firstSeen: FirstSeen;
}

/** Failed revisions that a record names. */
export const mostGivenUp = 20;

/** The failed revisions with another one, as many of them as a record holds. */
export function recordGivenUp(earlier: readonly string[], revision: string): readonly string[] {
  return [...earlier.filter((one) => one !== revision), revision].slice(-mostGivenUp);
}

/** What the status shows of the revisions that a record names. */
export function viewRecord({ appliedRevision: applied, appliedAt, failed, givenUp }: LoopRecord) {
  return { applied, appliedAt, failed: [...failed, ...givenUp] };
}

export const emptyRecord: LoopRecord = {
  isSealed: true,
  appliedRevision: null,
  appliedAt: null,
  inForceRevision: null,
  confirmedRevision: null,
  pendingRevision: null,
  pendingUntil: null,
  graceGiven: false,
  isLost: false,
  givenUp: [],
  failed: [],
  appliedDesired: null,
  sentSecrets: [],
  agreedAt: null,
  toldUntil: 0,
  knownRules: null,
  suspended: false,
  drift: 0,
  firstSeen: {},
};

/** Where an earlier record cannot be read, or is not ours. */
export const lostRecord: LoopRecord = { ...emptyRecord, isLost: true };

/** The revisions whose content may be applied because the record names them. */
export function listRevisions(record: Omit<LoopRecord, 'isSealed'>): readonly (string | null)[] {
  const { appliedRevision, inForceRevision, confirmedRevision, pendingRevision } = record;
  return [appliedRevision, inForceRevision, confirmedRevision, pendingRevision];
}

/** What a record keeps of the end of a pass: a revision that failed, and how much drift was left alone. */
export function recordEnding(
  { failed, drift, appliedRevision }: LoopRecord,
  { verdict: { kind, reason }, complaint, content, result }: PassEnding,
): Pick<LoopRecord, 'failed' | 'drift'> {
  const revision = content?.revision;
  const isLost = kind === 'terminal' && (reason === 'ApplyFailed' || reason === 'NotConverging');
  const isNew = revision !== undefined && revision !== appliedRevision && complaint === undefined;
  const left = reason === 'DriftReported' ? (result?.plan?.steps.length ?? 0) : drift;
  return {
    failed: isLost && isNew ? recordGivenUp(failed, revision) : failed,
    drift: kind === 'good' ? 0 : left,
  };
}

/** Where secrets were sent, as far as a record holds it. */
export function recordSecrets(sent: readonly SecretBinding[]): readonly SecretBinding[] {
  const most = 50;
  const longest = 500;
  return sent.filter((one) => JSON.stringify(one).length <= longest).slice(0, most);
}

export interface RecordStore {
  /** Never fails: a record that cannot be read is an empty one, said in the log. */
  load(): Promise<LoopRecord>;
  /** Whether it is kept now. False: another replica may not know what is about to be written, so it must not be written. */
  save(record: LoopRecord): Promise<boolean>;
}

/** Where the text of a record lies; each call counts only while this replica holds the lease. */
export interface RecordText {
  /** Null: there is none. Rejects when it cannot be read. */
  read(): Promise<string | null>;
  write(text: string): Promise<boolean>;
}
