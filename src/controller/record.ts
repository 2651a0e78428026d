/** What a loop remembers over restarts. Nothing is deleted because of it, and nothing is lost without it but attribution. */
export interface LoopRecord {
  /** The revision last fully in effect, and when (ms since 1970). */
  readonly appliedRevision: string | null;
  readonly appliedAt: number | null;
  /** The revision last begun to be written: what of it could be carried out is in force, all of it or not. */
  readonly inForceRevision: string | null;
  /** Digest of what that revision asked for then; with other values or settings it asks for something else. */
  readonly appliedDesired: string | null;
  /** Number of live rules after the last good pass. */
  readonly knownRules: number | null;
}

export const emptyRecord: LoopRecord = {
  appliedRevision: null,
  appliedAt: null,
  inForceRevision: null,
  appliedDesired: null,
  knownRules: null,
};

/** Keeps the record. `load` never fails: an unreadable record is an empty one, said in the log. */
export interface RecordStore {
  load(): Promise<LoopRecord>;
  save(record: LoopRecord): Promise<void>;
}
