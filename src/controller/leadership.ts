import type { DesiredState } from '../model/state.ts';
import type { PassResult } from '../pass/pass.ts';
import { listSentReferences } from '../plan/guard/guard-secrets.ts';
import type { SourceContent, SourceReading } from '../ports.ts';
import { Backoff } from './backoff.ts';
import type { Verdict } from './failure.ts';
import type { Held } from './gate.ts';
import type { LoopParts } from './loop-parts.ts';
import { countLiveRules } from './pass-ending.ts';
import { logInternalError } from './pass-log.ts';
import { emptyRecord, type LoopRecord, noDrift, recordDrift, recordSecrets } from './record.ts';
import { SourceHistory } from './revision-selection.ts';
import type { InEffect } from './same-desired.ts';
import { formatStepKey } from './step-key.ts';

const notRecorded: Held = {
  reason: 'RecordFailed',
  message: 'the record beside the lease cannot be written, so nothing is applied: a new leader would not know of it',
  terminal: false,
  waitMs: 5000,
};

/** What decisions rest on while this replica holds the lease: made anew with each lease, from the record that lies with it. */
export class Leadership {
  readonly #parts: LoopParts;
  /** Aborts when the lease is lost. */
  readonly signal: AbortSignal;
  readonly history: SourceHistory;
  readonly backoff: Backoff;
  #record: LoopRecord;
  /** The last save did not work. */
  #unsaved = false;
  /** The desired state last applied, for attribution. */
  #base: DesiredState | null = null;
  #triedBase = false;

  constructor(parts: LoopParts, signal: AbortSignal, record: LoopRecord) {
    this.#parts = parts;
    this.signal = signal;
    this.#record = record;
    this.history = new SourceHistory(parts.source, parts.clock);
    this.backoff = new Backoff(parts.clock);
  }

  get record(): LoopRecord {
    return this.#record;
  }

  get base(): DesiredState | null {
    return this.#base;
  }

  /** What the applied revision asked for, when this is that one. */
  inEffect({ revision }: SourceContent): InEffect | null {
    const { appliedRevision, appliedDesired } = this.#record;
    return revision === appliedRevision ? { digest: appliedDesired, state: this.#base } : null;
  }

  /** Finds the content of the record's revisions, now read or by commit. What cannot be had is absent, and looked for again. */
  async recall({ content: newest }: SourceReading, stop: AbortSignal): Promise<void> {
    const { source, build, logger } = this.#parts;
    if (newest !== null) await this.#checkOrigin(newest.revision, stop);
    const { appliedRevision, inForceRevision, appliedDesired, agreedAt, isSealed } = this.#record;
    if (!isSealed && source.readAt !== undefined) return;
    const find = async (revision: string | null): Promise<SourceContent | null> => {
      const near = [newest, this.history.lastGood].find((one) => one?.revision === revision);
      if (near || revision === null || source.readAt === undefined) return near ?? null;
      return (await source.readAt(revision, stop, this.#record.firstSeen)).content;
    };
    try {
      if (this.history.lastGood === null) {
        const inForce = await find(inForceRevision);
        if (inForce !== null) this.history.accept(inForce);
      }
      if (this.#triedBase || this.#base !== null) return;
      const applied = await find(appliedRevision);
      if (applied === null) return;
      this.#triedBase = true;
      const base = await build(applied, agreedAt);
      // Under other settings the same manifests ask for something else than was applied.
      this.#base = appliedDesired === null || base?.digest === appliedDesired ? base : null;
    } catch (error) {
      logInternalError(logger, error);
    }
  }

  /**
   * A record without our seal (a new token, or somebody who may write the Lease) counts where the branch descends from the
   * revisions that it names: a Git server gives out any commit of any fork by its id.
   */
  async #checkOrigin(newest: string, stop: AbortSignal): Promise<void> {
    const { source, logger } = this.#parts;
    const { isSealed, appliedRevision, inForceRevision } = this.#record;
    if (isSealed || source.descends === undefined) return;
    for (const revision of [appliedRevision, inForceRevision]) {
      if (revision === null || revision === newest) continue;
      const descent = await source.descends(revision, newest, stop);
      if (descent === 'yes') continue;
      if (descent === 'unasked') return;
      logger.warn(
        'The record has no seal of this API token and names a commit that is not on the branch: it is made anew',
        { revision },
      );
      this.#record = emptyRecord;
      return;
    }
    this.#record = { ...this.#record, isSealed: true };
  }

  /** Notes when the newest commit was first seen, and whether the operator asks not to write. */
  async observe(revision: string | null): Promise<void> {
    const { settings, clock, source } = this.#parts;
    const { firstSeen, appliedRevision, inForceRevision, confirmedRevision, pendingRevision } = this.#record;
    const named = [appliedRevision, inForceRevision, confirmedRevision, pendingRevision, revision];
    const now = clock.wallTime();
    const seen = named.filter((one) => one !== null).map((one) => [one, firstSeen[one] ?? now] as const);
    // What is not signed, a directory, has no use for it.
    const kept = source.readAt === undefined ? {} : { firstSeen: Object.fromEntries(seen) };
    await this.#update({ ...kept, suspended: settings().suspended });
  }

  /**
   * From its first write on this revision is in force, and stays so while the source is gone, though the server may refuse some
   * of it: to go back to the one before would undo what has been carried out, because of an outage. Null: it may be written.
   */
  async begin(content: SourceContent, desired: DesiredState | null): Promise<Held | null> {
    if (!(await this.#update({ inForceRevision: content.revision, ...agreedAtOf(desired) }))) return notRecorded;
    this.history.accept(content);
    return null;
  }

  /** This content is in effect, as a pass found or brought about. */
  async applied(content: SourceContent, result: PassResult | null): Promise<void> {
    const { revision } = content;
    this.history.accept(content);
    this.#base = result?.desired?.state ?? this.#base;
    const { appliedRevision, appliedAt, knownRules, appliedDesired, sentSecrets } = this.#record;
    await this.#update({
      appliedRevision: revision,
      appliedAt: revision === appliedRevision ? appliedAt : this.#parts.clock.wallTime(),
      inForceRevision: revision,
      appliedDesired: this.#base?.digest ?? appliedDesired,
      sentSecrets: recordSecrets(listSentReferences(result?.desired?.state ?? null, result?.plan ?? null, sentSecrets)),
      ...agreedAtOf(this.#base),
      knownRules: countLiveRules(result) ?? knownRules,
    });
  }

  /** The times of this content are those of this state now; what it asks for beside them is as it was. */
  async turned({ revision }: SourceContent, state: DesiredState | null): Promise<void> {
    if (revision !== this.#record.appliedRevision || state === null) return;
    this.#base = state;
    await this.#update({ appliedDesired: state.digest, ...agreedAtOf(state) });
  }

  /** Remembers the drift that is left alone, or that there is none any more. */
  async judged({ kind, reason }: Verdict, result: PassResult | null): Promise<void> {
    if (reason === 'DriftReported')
      await this.#update({ drift: recordDrift((result?.plan?.steps ?? []).map(formatStepKey)) });
    else if (kind === 'good') await this.#update({ drift: noDrift });
  }

  /** Whether the record is kept with this change, and the lease is still ours. */
  async #update(change: Partial<LoopRecord>): Promise<boolean> {
    if (this.signal.aborted) return false;
    const before = this.#record;
    const next = { ...before, ...change };
    const isSame = Object.keys(change).every((key) => {
      const name = key as keyof LoopRecord;
      return JSON.stringify(before[name]) === JSON.stringify(next[name]);
    });
    if (isSame && !this.#unsaved) return true;
    const isKept = await this.#parts.store.save(next);
    this.#unsaved = !isKept;
    if (this.signal.aborted) return false;
    // What was begun is only true once it is known to all; what has happened is true anyway, and is saved with the next change.
    if (isKept || change.inForceRevision === undefined || change.appliedRevision !== undefined) this.#record = next;
    return isKept;
  }
}

function agreedAtOf(state: DesiredState | null): Partial<LoopRecord> {
  return state?.at === undefined ? {} : { agreedAt: state.at };
}
