import type { Boundary, DesiredState } from '../model/state.ts';
import type { PassResult } from '../pass/pass.ts';
import { listSentReferences } from '../plan/guard/guard-secrets.ts';
import type { SourceContent, SourceReading } from '../ports.ts';
import { Backoff } from './backoff.ts';
import { shortenRevision } from './conditions.ts';
import { notRecorded, type PassOrder, unconfirmedBefore } from './gate.ts';
import type { LoopParts } from './loop-parts.ts';
import { countLiveRules, explainLeft, isInForce, type PassEnding, type PassRun, type Verdict } from './pass-ending.ts';
import { logInternalError } from './pass-log.ts';
import { isAsApplied, PassRunner } from './pass-runner.ts';
import {
  agreedAtOf,
  type LoopRecord,
  listUntold,
  noteConfirmed,
  noteConfirming,
  notePending,
  noteSeen,
  nothingPending,
  recordEnding,
  recordGivenUp,
  recordSecrets,
  turnApplied,
} from './record.ts';
import { checkOrigin, SourceHistory } from './revision-selection.ts';
import type { StatusBoard } from './status-board.ts';
import { Trial } from './trial.ts';

/** So long the source may take when a revision in force is taken up, and where it is late, each revision of the record. */
const takeUpMs = 5000;

/** What decisions rest on while this replica holds the lease: made anew with each lease, from the record that lies with it. */
export class Leadership {
  readonly #parts: LoopParts;
  /** Aborts when the lease is lost. */
  readonly signal: AbortSignal;
  readonly runner: PassRunner;
  readonly history: SourceHistory;
  readonly backoff: Backoff;
  readonly #trial: Trial;
  readonly #stop: AbortSignal;
  /** What lies with the lease; changed here alone. */
  record: LoopRecord;
  /** The last save did not work. */
  #unsaved = false;
  /** The desired state last applied, for attribution; found or made here alone. */
  base: DesiredState | null = null;
  #triedBase = false;
  /** The content that was confirmed, as long as it is at hand. */
  #confirmed: SourceContent | null = null;
  /** The pending revision, once all of it was in effect. */
  #held: string | null = null;
  /** A newer revision need not wait: what the pending one changed cannot be taken back, or it is confirmed and not in effect. */
  #mayLeave = false;
  /** Until when the source is waited for before a revision in force is looked after; infinite: there is none, or it was. */
  #takeUpBy: number;

  constructor(parts: LoopParts, record: LoopRecord, board: StatusBoard, signal: AbortSignal) {
    this.#parts = parts;
    this.#takeUpBy = record.inForceRevision === null ? Number.POSITIVE_INFINITY : parts.clock.wallTime() + takeUpMs;
    this.signal = signal;
    this.record = record;
    this.#stop = AbortSignal.any([parts.stop, signal]);
    this.runner = new PassRunner(parts, board, this.#stop);
    this.history = new SourceHistory(parts);
    this.backoff = new Backoff(parts.clock);
    this.#trial = new Trial(parts, this.#stop);
  }

  /** The revision that nobody confirmed, while what it changed is taken back. */
  get takenBack(): string | null {
    const { pendingRevision, givenUp } = this.record;
    return givenUp.at(-1) === pendingRevision ? pendingRevision : null;
  }

  /** When what waits to be confirmed is taken back (ms since 1970); null: nothing waits. */
  get confirmBy(): number | null {
    const { pendingRevision, pendingUntil } = this.record;
    return this.#trial.wordOn(pendingRevision) === 'waiting' ? pendingUntil : null;
  }

  /** When something is due whatever the source says (ms since 1970); 0: what nobody confirmed is taken back. */
  get dueAt(): number {
    const isLost = this.takenBack !== null || this.#trial.wordOn(this.record.pendingRevision) === 'lost';
    return isLost && !this.#mayLeave ? 0 : Math.min(this.#takeUpBy, this.confirmBy ?? Number.POSITIVE_INFINITY);
  }

  /** What it takes to bring this content into effect. */
  order(content: SourceContent): PassOrder {
    return {
      content,
      base: this.base,
      record: this.record,
      isHeld: this.#held === content.revision && this.#held === this.record.pendingRevision,
      begin: (desired) => this.#begin(content, desired),
      beginAlone: async () => ((await this.#update({ isPartly: true })) ? null : notRecorded),
      deleteWaitMs: () => this.history.quietLeft(this.#parts.settings().deleteQuietMs),
    };
  }

  /** Finds the content of the record's revisions, now read or by commit. What cannot be had is absent, and looked for again. */
  async #recall({ content: newest }: SourceReading, isLate: boolean): Promise<void> {
    const { source, build, logger, clock } = this.#parts;
    const over = new AbortController();
    if (isLate) void clock.sleep(takeUpMs, this.#stop).then(() => over.abort());
    const signal = AbortSignal.any([this.#stop, over.signal]);
    if (newest !== null) this.record = await checkOrigin(this.record, newest.revision, this.#parts, this.#stop);
    const { appliedRevision, inForceRevision, appliedDesired, agreedAt, isSealed } = this.record;
    if (!isSealed && source.readAt !== undefined) return;
    const find = async (revision: string | null): Promise<SourceContent | null> => {
      const near = [newest, this.history.lastGood].find((one) => one?.revision === revision);
      if (near || revision === null || source.readAt === undefined) return near ?? null;
      return (await source.readAt(revision, signal, this.record.firstSeen)).content;
    };
    try {
      this.history.lastGood ??= await find(inForceRevision);
      if (this.#triedBase || this.base !== null) return;
      const applied = await find(appliedRevision);
      if (applied === null) return;
      const base = await build(applied, agreedAt);
      this.#triedBase = base !== null;
      // Under other settings the same manifests ask for something else than was applied.
      this.base = appliedDesired === null || base?.digest === appliedDesired ? base : null;
    } catch (error) {
      logInternalError(logger, error);
    }
  }

  /** Has what waits taken back once its time is over, or its content is gone; null: no need. `isLeft`: another one is to be in effect. */
  async #abandon(isLeft: boolean): Promise<Verdict | null> {
    const { confirmedRevision: to, pendingRevision: revision, givenUp: earlier } = this.record;
    const word = this.takenBack === null ? this.#trial.wordOn(revision) : 'kept';
    // An earlier process wrote it, and its content was not found again: going back later would leave what it changed.
    const isGone = isLeft && word !== 'kept' && this.history.lastGood?.revision !== revision;
    if (revision === null || (word !== 'lost' && !isGone)) return null;
    if (!(await this.#update({ givenUp: recordGivenUp(earlier, revision), inForceRevision: to }))) return notRecorded;
    this.history.lastGood = this.#confirmed?.revision === to ? this.#confirmed : null;
    const why = word === 'lost' ? 'was not confirmed in time' : 'was never confirmed and its content is gone';
    this.#parts.logger.error(`A revision ${why}: it is taken back`, { revision, to, detail: this.#trial.said });
    return unconfirmedBefore;
  }

  /** Finds what was in effect, after what nobody confirmed is given up. The newest revision, or '' without; null: that could not be recorded. */
  async #takeUp(reading: SourceReading, isLate: boolean): Promise<string | null> {
    const { revision: newest = '' } = reading.content ?? {};
    await this.#recall(reading, isLate);
    const lost = await this.#abandon(newest === this.record.confirmedRevision);
    if (lost === unconfirmedBefore) await this.#recall(reading, isLate);
    return lost === notRecorded ? null : newest;
  }

  /**
   * Chooses what is to be in effect: a revision that waits to be confirmed stays, and one that nobody confirmed is not tried again.
   * It is taken back once that is recorded: then nobody applies it again. `observed`: the newest revision that was seen. `isLate`: the
   * source did not answer in time. `until`: its history is not asked for longer.
   */
  async choose(reading: SourceReading, observed: string | null, isLate: boolean, until: AbortSignal) {
    this.#takeUpBy = Number.POSITIVE_INFINITY;
    const { settings, clock, source } = this.#parts;
    const { suspended, confirmWithinMs } = settings();
    // What is not signed, a directory, has no use for when a commit was first seen.
    const seen = source.readAt === undefined ? {} : noteSeen(this.record, observed, clock.wallTime());
    await this.#update({ ...seen, ...noteConfirming(this.record, confirmWithinMs !== null), suspended });
    const newest = await this.#takeUp(reading, isLate);
    if (newest === null) return { content: null, complaint: notRecorded, settlingMs: null };
    const { appliedRevision, pendingRevision: pending, givenUp } = this.record;
    const { takenBack: back, history } = this;
    const { lastGood } = history;
    if (givenUp.includes(newest) || (back !== null && (newest === '' || !this.#mayLeave))) {
      const refused = { content: lastGood, complaint: this.#trial.refuse(back ?? newest), settlingMs: null };
      return back === null ? refused : { ...refused, back };
    }
    if (pending !== null && lastGood?.revision === pending && !this.#mayLeave)
      return { content: lastGood, complaint: null, settlingMs: null };
    // What waits is asked about though its content is not at hand.
    return await history.choose(reading, appliedRevision, isLate && (pending === null || lastGood !== null), until);
  }

  /** The revision that this pass, or a turn without one, tries out; null: none. */
  #findTried({ content, verdict }: PassEnding): string | null {
    const { isLost, pendingRevision, confirmedRevision } = this.record;
    const revision = content?.revision ?? null;
    if (this.takenBack !== null || (revision !== null && revision === confirmedRevision)) return null;
    // What was pending before the record was lost is not known: what is in effect has to be confirmed anew.
    return pendingRevision ?? (isLost && isInForce(verdict) ? revision : null);
  }

  /** However well a pass over what waits to be confirmed went, it is not in effect before. */
  async #onTrial(end: PassEnding): Promise<PassEnding> {
    const { confirmWithinMs } = this.#parts.settings();
    const pending = confirmWithinMs === null ? null : this.#findTried(end);
    if (confirmWithinMs === null || pending === null) return end;
    const isDone = isInForce(end.verdict);
    const time = this.#trial.passEnded(pending, end, confirmWithinMs, this.record);
    const isKept = await this.#update({ pendingRevision: pending, ...time });
    const word = this.#trial.wordOn(pending);
    if (word === 'lost') return { ...end, verdict: isKept ? unconfirmedBefore : notRecorded };
    this.#mayLeave = word === 'kept' && !isDone;
    if (end.verdict.kind === 'good') this.#held = pending;
    if (!isDone || word !== 'waiting') return end;
    const message = `${shortenRevision(pending)} is applied, and waits until the command of \`confirmWith\` ends with 0`;
    return { ...end, verdict: { kind: 'held', reason: 'AwaitingConfirmation', message, waitMs: this.#trial.lookMs } };
  }

  /** A try to take back a revision has ended; another follows while a request is open. Where it cannot be done, none waits for it. */
  async triedBack(revision: string, { verdict, result }: PassRun, openMs: number): Promise<Verdict> {
    this.#mayLeave = verdict.kind === 'terminal';
    this.#trial.back = isInForce(verdict)
      ? `was taken back${explainLeft(result, openMs)}`
      : `is not taken back yet: ${verdict.message}`;
    if (isInForce(verdict) && openMs === 0) await this.#update({ ...nothingPending, isPartly: false });
    return this.#trial.refuse(revision);
  }

  /**
   * From its first write on this revision is in force, and stays so while the source is gone, though the server may refuse some
   * of it: to go back to the one before would undo what has been carried out, because of an outage. Null: it may be written.
   */
  async #begin(content: SourceContent, desired: DesiredState | null): Promise<Verdict | null> {
    const { revision } = content;
    const { confirmedRevision, pendingRevision, inForceRevision } = this.record;
    const isTried = this.#parts.settings().confirmWithinMs !== null && revision !== confirmedRevision;
    const isNew = isTried && revision !== pendingRevision;
    const lost = isNew ? await this.#abandon(true) : null;
    if (lost !== null) return lost;
    const pending = isNew ? notePending(this.record, revision) : {};
    // A rule that begins in a revision in force has begun once it is written: where the server fails it is tried again.
    const agreed = revision === inForceRevision ? {} : agreedAtOf(desired);
    const begun = { inForceRevision: revision, isPartly: !isAsApplied(this.order(content), desired) };
    if (!(await this.#update({ ...begun, ...pending, ...agreed }))) return notRecorded;
    if (isNew) {
      this.#trial.begin();
      [this.#mayLeave, this.#held] = [false, null];
    }
    if (this.history.lastGood?.revision === confirmedRevision) this.#confirmed = this.history.lastGood;
    this.history.lastGood = content;
    return null;
  }

  /** Judges what a pass came to, also as a trial, and remembers it as far as later ones depend on it. */
  async ended(pass: PassEnding): Promise<PassEnding> {
    const end = await this.#onTrial(pass);
    const { content, verdict, result = null } = end;
    if (content !== null && isInForce(verdict)) await this.#applied(content, result);
    const { clock, settings } = this.#parts;
    await this.#update(recordEnding(this.record, end, clock.wallTime(), settings().requestTimeoutMs));
    this.history.hear(end, this.record);
    return end;
  }

  async #applied(content: SourceContent, result: PassResult | null): Promise<void> {
    const { revision } = content;
    this.history.lastGood = content;
    this.base = result?.desired?.state ?? this.base;
    const { appliedRevision, appliedAt, knownRules, appliedDesired, sentSecrets } = this.record;
    await this.#update({
      ...(this.#parts.settings().confirmWithinMs === null ? {} : noteConfirmed(this.record, revision)),
      isLost: false,
      isPartly: false,
      appliedRevision: revision,
      appliedAt: revision === appliedRevision ? appliedAt : this.#parts.clock.wallTime(),
      inForceRevision: revision,
      appliedDesired: this.base?.digest ?? appliedDesired,
      sentSecrets: recordSecrets(listSentReferences(result?.desired?.state ?? null, result?.plan ?? null, sentSecrets)),
      ...agreedAtOf(this.base),
      knownRules: countLiveRules(result) ?? knownRules,
    });
  }

  /** The times of this content are those of this state now. What is applied is as it was beside them. */
  async turned({ revision }: SourceContent, { result }: PassRun): Promise<void> {
    const state = result?.desired?.state;
    if (state?.at === undefined) return;
    const base = revision === this.record.appliedRevision ? turnApplied(this.record, this.base, state) : null;
    this.base = base ?? this.base;
    await this.#update({ ...(base && { appliedDesired: base.digest }), ...agreedAtOf(state) });
  }

  /** Of these rules, which begin or end soon, those of which nobody was told yet; now they are. `before`: what was in force until now. */
  async announce(soon: readonly Boundary[], before: DesiredState | null): Promise<readonly Boundary[]> {
    const { toldUntil: told } = this.record;
    const unheard = listUntold(soon, before, told);
    await this.#update({ toldUntil: unheard.reduce((last, { at }) => Math.max(last, at), told) });
    return unheard;
  }

  /** Whether the record is kept with this change, and the lease is still ours. */
  async #update(change: Partial<LoopRecord>): Promise<boolean> {
    if (this.signal.aborted) return false;
    const next = { ...this.record, ...change };
    if (JSON.stringify(next) === JSON.stringify(this.record) && !this.#unsaved) return true;
    const isKept = await this.#parts.store.save(next);
    this.#unsaved = !isKept;
    if (this.signal.aborted) return false;
    // What was begun is only true once it is known to all; what has happened is true anyway, and is saved with the next change.
    if (isKept || change.inForceRevision === undefined || change.appliedRevision !== undefined) this.record = next;
    return isKept;
  }
}
