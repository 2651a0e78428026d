import { shortenRevision } from '../../controller/conditions.ts';
import type { PassView, Status } from '../../controller/status.ts';
import type { Rollout } from './targets.ts';

/** A target as a roll-out sees it. */
export interface Participant {
  readonly name: string;
  readonly wave: number;
  readonly status: () => Status;
}

/** A revision that some target could not carry out; it begins nowhere else any more. */
export interface FailedRevision {
  readonly revision: string;
  readonly target: string;
  readonly message: string;
  /** ms since 1970. */
  readonly at: number;
}

/** What the last pass of a target showed. */
interface Seen {
  /** The revision that it converged to, that was confirmed where that is asked, and that the kernel holds where that is looked at. */
  readonly settled: string | null;
  readonly appliedAt: number;
  /** The revision that was refused here, or not carried out. */
  readonly broken: string | null;
  readonly message: string;
}

/** The ends of a pass after which nobody else begins its revision; all but the first may have written. */
const broken: ReadonlySet<string> = new Set(['Refused', 'ApplyFailed', 'NotConverging', 'NotConfirmed']);
const mostFailed = 20;

/**
 * Lets targets begin a revision wave by wave. It rests on what each controller keeps of itself, so that a roll-out goes on
 * after a restart where it was. The first row that applies counts:
 *
 *   the target has it, or has written some of it | it goes on
 *   the fleet is paused, or the revision aborted | waits
 *   some target could not carry it out           | waits for another revision
 *   some target refuses it now, or fails         | waits
 *   a target of an earlier wave has not settled  | waits
 *   the soak after the earlier waves             | waits until it is over
 *   maxParallel targets are in their first pass  | waits
 */
export class RolloutGate {
  readonly #members: ReadonlyMap<string, Participant>;
  #settings: Rollout;
  #failed: readonly FailedRevision[];
  readonly #seen = new Map<string, Seen>();
  /** Targets in their first pass with a revision. */
  readonly #busy = new Set<string>();
  /** Those that were told to wait, and for which revision. */
  readonly #waiting = new Map<string, string>();

  constructor(members: readonly Participant[], settings: Rollout, failed: readonly FailedRevision[]) {
    this.#members = new Map(members.map((one) => [one.name, one]));
    this.#settings = settings;
    this.#failed = failed;
  }

  /** Other settings count from now on. */
  adopt(settings: Rollout): void {
    this.#settings = settings;
  }

  /** Why this target must not begin this revision now; null: it may, and from now on it has. */
  admit(name: string, revision: string, now: number): string | null {
    const member = this.#members.get(name);
    if (member === undefined) return null;
    const { revisions, passes } = member.status();
    const hasBegun = revisions.applied === revision || passes.some((one) => hasWritten(one, revision));
    const reason = hasBegun ? null : this.#decide(member.wave, revision, now);
    const isNew = !hasBegun && revisions.attempted !== revision;
    if (reason !== null || (isNew && this.#room() <= 0)) {
      this.#waiting.set(name, revision);
      return reason ?? `${shortenRevision(revision)} waits: maxParallel is ${this.#settings.maxParallel}`;
    }
    this.#waiting.delete(name);
    if (isNew) this.#busy.add(name);
    return null;
  }

  /** A pass ended. Gives the revisions that are to be remembered as failed, when there is a new one. */
  ended(name: string, pass: PassView, status: Status, now: number): readonly FailedRevision[] | null {
    this.#busy.delete(name);
    const seen = viewEnding(pass, status, now);
    this.#seen.set(name, seen);
    const { broken: revision, message } = seen;
    const isLost = pass.result === 'terminal' && pass.reason !== 'Refused';
    if (!isLost || revision === null || this.#failed.some((one) => one.revision === revision)) return null;
    this.#failed = [...this.#failed, { revision, target: name, message, at: now }].slice(-mostFailed);
    return this.#failed;
  }

  /** Those that waited and may begin now, and when a soak ends for others (ms from now; null: none does). */
  release(now: number): { readonly names: readonly string[]; readonly inMs: number | null } {
    const names: string[] = [];
    let inMs: number | null = null;
    const decided = new Map<string, string | null>();
    for (const [name, revision] of this.#waiting) {
      const wave = this.#members.get(name)?.wave ?? 1;
      const key = `${wave} ${revision}`;
      if (!decided.has(key)) {
        decided.set(key, this.#decide(wave, revision, now));
        const left = this.#soakLeft(wave, revision, now);
        if (left > 0) inMs = Math.min(inMs ?? left, left);
      }
      if (decided.get(key) === null && names.length < this.#room()) names.push(name);
    }
    return { names, inMs };
  }

  /** What the roll-out waits for, for people; null: no target waits. */
  describe(now: number): string | null {
    for (const [name, revision] of this.#waiting) {
      const reason = this.#decide(this.#members.get(name)?.wave ?? 1, revision, now);
      if (reason !== null) return reason;
    }
    return null;
  }

  #room(): number {
    return (this.#settings.maxParallel ?? Number.POSITIVE_INFINITY) - this.#busy.size;
  }

  /** What keeps the targets of a wave that have not begun a revision from it. */
  #decide(wave: number, revision: string, now: number): string | null {
    const short = shortenRevision(revision);
    const { isPaused, abort } = this.#settings;
    if (isPaused) return `${short} waits: the fleet is paused`;
    if (abort !== null && revision.replace(/^sha256:/, '').startsWith(abort.replace(/^sha256:/, '')))
      return `${short} was aborted by the operator`;
    const failed = this.#failed.find((one) => one.revision === revision);
    if (failed !== undefined) return `${short} failed at ${failed.target} and begins nowhere else: ${failed.message}`;
    for (const [name, { broken: of, message }] of this.#seen)
      if (of === revision) return `${short} waits for ${name}: ${message}`;
    for (const { name, wave: other } of this.#members.values())
      if (other < wave && this.#seen.get(name)?.settled !== revision)
        return `${short} waits for ${name} of wave ${other}`;
    const left = this.#soakLeft(wave, revision, now);
    return left === 0 ? null : `${short} soaks in earlier waves until ${new Date(now + left).toISOString()}`;
  }

  #soakLeft(wave: number, revision: string, now: number): number {
    let left = 0;
    for (const { name, wave: other } of this.#members.values()) {
      const seen = this.#seen.get(name);
      if (other >= wave || seen?.settled !== revision) continue;
      left = Math.max(left, seen.appliedAt + this.#settings.soakMs - now);
    }
    return left;
  }
}

function viewEnding(pass: PassView, { revisions, conditions }: Status, now: number): Seen {
  const { Ready, Enforced } = conditions;
  const isSettled = Ready.status === 'True' && (Enforced === undefined || Enforced.status === 'True');
  // While it is taken back, a newer one may have been seen.
  const tried = pass.reason === 'NotConfirmed' ? revisions.attempted : null;
  const revision = tried ?? pass.failedRevision ?? pass.revision;
  return {
    settled: isSettled ? revisions.applied : null,
    appliedAt: revisions.appliedAt ?? now,
    broken: broken.has(pass.reason) && revision !== revisions.applied ? revision : null,
    message: pass.message,
  };
}

/** What is begun is brought to its end. */
function hasWritten({ revision: of, outcomes }: PassView, revision: string): boolean {
  return of === revision && outcomes.done + outcomes.failed + outcomes.unknown > 0;
}
