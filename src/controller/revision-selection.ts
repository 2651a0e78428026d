import type { SourceContent, SourceReading } from '../ports.ts';
import { shortenRevision } from './conditions.ts';
import type { LoopParts } from './loop-parts.ts';
import { joinTexts, type PassEnding, type Verdict } from './pass-ending.ts';
import { type LoopRecord, listRevisions, lostRecord } from './record.ts';

/** What of the source is to be in effect, and what is wrong with its newest revision. */
export interface RevisionSelection {
  readonly content: SourceContent | null;
  readonly complaint: Verdict | null;
  /** Until the newest content is stable; null: it is, or there is none. */
  readonly settlingMs: number | null;
  /** Content that a pass may come to once it is stable: worth parsing meanwhile. At most once until something is stable. */
  readonly early?: SourceContent;
  /** The revision that nobody confirmed, where what it changed is to be taken back now. */
  readonly back?: string;
}

/** Follows one source: which of its revisions is the last good one, since when the newest stands still. */
export class SourceHistory {
  readonly #parts: Pick<LoopParts, 'source' | 'clock' | 'settings' | 'hold'>;
  /** The content in effect; null: none is known to be. */
  lastGood: SourceContent | null = null;
  /** What is wrong with the newest revision, as far as it is known. */
  #said: Verdict | null = null;
  /** Since when the source has shown the same content (monotonic, ms). */
  #settling: { readonly revision: string; readonly since: number } | null = null;
  #unstableSince: number | null = null;

  constructor(parts: Pick<LoopParts, 'source' | 'clock' | 'settings' | 'hold'>) {
    this.#parts = parts;
  }

  /** ms until the newest content has been the same for `quietMs`. */
  quietLeft(quietMs: number): number {
    return this.#settling === null ? 0 : Math.max(0, this.#settling.since + quietMs - this.#parts.clock.now());
  }

  /** The newest revision if readable, stable, no step back and not held; else, and of a late source, the last good one and why. */
  async choose({ content, ...reading }: SourceReading, applied: string | null, isLate: boolean, until: AbortSignal) {
    if (isLate) return { content: this.lastGood, complaint: this.#said, settlingMs: null };
    if (content === null) return this.#keep(judgeSource({ content, ...reading }), reading.observed);
    const { revision } = content;
    const settling = this.#untilSettled(content);
    if (settling !== null) return settling;
    const rewind = await this.#rewindOf(revision, applied, until);
    if (rewind !== null) return this.#keep(rewind, revision);
    const message = this.#parts.hold?.(revision, revision === this.lastGood?.revision ? 'in-force' : 'chosen');
    if (message) return this.#keep({ kind: 'held', reason: 'Waiting', message }, revision);
    return { content, complaint: null, settlingMs: null };
  }

  /** Takes what a turn said of the newest revision: while the source is late, nothing more is known of it. */
  hear({ complaint, verdict, content }: PassEnding, { stuckRevision, inForceRevision }: LoopRecord): void {
    const isLeft = content !== null && content.revision === stuckRevision && stuckRevision !== inForceRevision;
    this.#said = complaint ?? (isLeft ? { ...verdict, revision: stuckRevision } : null);
  }

  #keep(complaint: Verdict, revision: string | undefined): RevisionSelection {
    return { content: this.lastGood, complaint: { ...complaint, revision }, settlingMs: null };
  }

  /** Null once the content is stable. A source that never stands still must not keep the last good revision from being enforced. */
  #untilSettled(content: SourceContent): RevisionSelection | null {
    const { quietMs, intervalMs } = this.#parts.settings();
    const now = this.#parts.clock.now();
    const { revision } = content;
    if (this.#settling?.revision !== revision) this.#settling = { revision, since: now };
    const settlingMs = this.quietLeft(quietMs);
    if (settlingMs === 0 || revision === this.lastGood?.revision) {
      this.#unstableSince = null;
      return null;
    }
    const early = this.#unstableSince === null ? { early: content } : {};
    this.#unstableSince ??= now;
    if (now - this.#unstableSince <= intervalMs) return { content: null, complaint: null, settlingMs, ...early };
    this.#unstableSince = now; // once an interval, not with each of the changes
    const message = 'the content does not stand still: what was last good stays in effect, and something keeps writing';
    return { ...this.#keep({ kind: 'held', reason: 'Settling', message }, revision), settlingMs };
  }

  async #rewindOf(revision: string, applied: string | null, until: AbortSignal): Promise<Verdict | null> {
    const { source, settings } = this.#parts;
    if (applied === null || applied === revision || settings().allowRewind || !source.descends) return null;
    const descends = await source.descends(applied, revision, until);
    if (descends === 'yes') return null;
    if (descends === 'unasked') {
      const message = `whether ${shortenRevision(revision)} descends from ${shortenRevision(applied)}, the applied revision, cannot be asked now; the applied one stays in effect`;
      return { kind: 'transient', reason: 'SourceFailed', message };
    }
    const because = descends === 'no' ? 'it does not descend from' : 'it is not known to descend from';
    const message = `${shortenRevision(revision)} is not applied: ${because} ${shortenRevision(applied)}, the applied revision; start with --allow-rewind to accept it`;
    return { kind: 'terminal', reason: 'RewindRefused', message };
  }
}

/**
 * A record without our seal (a new token, or somebody who may write the Lease) counts where the branch descends from the
 * revisions that it names: a Git server gives out any commit of any fork by its id. A directory gives out none.
 */
export async function checkOrigin(record: LoopRecord, newest: string, parts: LoopParts, stop: AbortSignal) {
  const { source, logger } = parts;
  if (record.isSealed) return record;
  for (const revision of new Set(listRevisions(record))) {
    if (revision === null || revision === newest || source.descends === undefined) continue;
    const descent = await source.descends(revision, newest, stop);
    if (descent === 'yes') continue;
    if (descent === 'unasked') return record;
    const unsealed = 'The record has no seal of this API token and names a commit that is not on the branch';
    logger.warn(`${unsealed}: it is made anew`, { revision });
    return lostRecord;
  }
  return { ...record, isSealed: true };
}

const terminalSources: ReadonlySet<string> = new Set([
  ...['git-auth', 'git-host-key', 'git-redirect', 'git-repository-missing', 'git-ref-missing', 'git-ref-ambiguous'],
  ...['git-path-missing', 'git-lfs', 'git-signature', 'git-signature-keys'],
  ...['not-a-regular-file', 'unsafe-file-name', 'no-manifests', 'source-too-large'],
]);

/** How a source that gave no content is judged: terminal where only a person or a push can help. */
function judgeSource(reading: SourceReading): Verdict {
  const problem = reading.problems[0];
  const message = problem === undefined ? 'the source has not answered in time' : joinTexts(problem);
  const kind = terminalSources.has(problem?.code ?? '') ? 'terminal' : 'transient';
  return { kind, reason: problem?.code.startsWith('git-signature') ? 'SignatureRefused' : 'SourceFailed', message };
}

/** A source that threw: stopped, or a mistake whose text is not shown. */
export function explainSourceError(error: unknown, stop: AbortSignal): SourceReading {
  const name = error instanceof Error ? error.name : typeof error;
  const code = stop.aborted ? 'stopped' : 'source-error';
  return { content: null, problems: [{ code, severity: 'error', summary: `the source could not be read (${name})` }] };
}
