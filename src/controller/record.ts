import * as z from 'zod';
import { boundOpenUntil, findOpenUntil } from '../apply/outcome.ts';
import type { SecretBinding } from '../model/configuration.ts';
import { formatRuleKey } from '../model/rule.ts';
import { type Boundary, type DesiredState, listBoundaries } from '../model/state.ts';
import { stateAt } from '../pass/clock.ts';
import type { ConditionReason } from './conditions.ts';
import type { PassEnding } from './pass-ending.ts';

/** Failed revisions that a record names. */
const mostGivenUp = 20;

const revision = z.string().regex(/^(?:sha256:)?[0-9a-f]{40,64}$/);
const digest = z.string().regex(/^[0-9a-f]{64}$/);
const count = z.number().int().nonnegative();
/** ms since 1970, as `Date` holds it: one beyond ends whoever writes it as a date. */
const time = z.number().int().min(0).max(8_640_000_000_000_000);
const text = z.string().max(500);
const binding = z.object({ name: text, provider: text, host: text });

/**
 * What decisions rest on. It belongs to the lease, not to a replica: whoever becomes the writer reads it, and uses nothing of
 * its own from before. Without a lease it lies in the state folder. It holds no content and no secret (only names): content is read again
 * from the source by its revision. A record of 0.1 has only the first three, and the revision that it calls applied was accepted.
 */
export const recordShape = z.object({
  /** The revision last fully in effect, and when. */
  appliedRevision: revision.nullable(),
  appliedAt: time.nullable(),
  /** Number of live rules after the last good pass. */
  knownRules: count.nullable(),
  /** The last good revision, last begun to be written; in force while a newer one is invalid or the source is gone. */
  inForceRevision: revision.nullish(),
  /** The revision that was confirmed last, and the one that waits for it. */
  confirmedRevision: revision.nullable().default(null),
  pendingRevision: revision.nullable().default(null),
  /** When the time of that one is over; null: it does not run yet. */
  pendingUntil: time.nullable().default(null),
  /** Somebody who took over was given time for one run of the command: nobody is again. */
  graceGiven: z.boolean().default(false),
  /** Those that it followed, each not in effect and not taken back: what they changed is taken back with it. */
  passedOver: z.array(revision).max(mostGivenUp).readonly().default([]),
  /** An earlier record could not be read, so that nobody knows which revision waited. Until one is in effect. */
  isLost: z.boolean().default(false),
  /** Not confirmed since another one was; a branch may be set back to each. The last one is taken back while it is pending too. */
  givenUp: z.array(revision).max(mostGivenUp).readonly().default([]),
  /** Revisions that failed here: an apply of theirs ended in error, or did not converge. The newest last. */
  failed: z.array(revision).max(mostGivenUp).readonly().default([]),
  /** Refused here, or not carried out, when it was tried last: no other target of a fleet begins it meanwhile. */
  stuckRevision: revision.nullable().default(null),
  /** Something was written since that was not known to be all of its revision: nothing that differs from the applied one is drift. */
  isPartly: z.boolean().default(false),
  /** Digest of what the applied revision asked for then; with other values or settings it asks for something else. */
  appliedDesired: digest.nullable().default(null),
  /** The operator's secrets that it sent, and where to: these go there again without a binding. */
  sentSecrets: z.array(binding.readonly()).readonly().default([]),
  /** The time for which its rules were last sorted, by a clock that agreed with the server's. */
  agreedAt: time.nullable().default(null),
  /** Until when a request without an answer may be carried out: what was taken back is looked at once more then. */
  openUntil: time.default(0),
  /** People were told beforehand of what begins or ends up to here. */
  toldUntil: time.default(0),
  /** The holder is asked not to write. */
  suspended: z.boolean().default(false),
  /** How many steps would undo the drift that was found and left alone. */
  drift: count.default(0),
  /** When the commits named here, and the newest, were first seen: the time at which signatures are checked. */
  firstSeen: z.record(revision, time).readonly().default({}),
});

/** See `recordShape`. `isSealed`: a process with our token wrote what it says of revisions, and not somebody who may only write the Lease. */
export type LoopRecord = Readonly<z.infer<typeof recordShape>> & {
  readonly inForceRevision: string | null;
  readonly isSealed: boolean;
};

/** The failed revisions with another one, as many of them as a record holds. */
export function recordGivenUp(earlier: readonly string[], revision: string): readonly string[] {
  return [...earlier.filter((one) => one !== revision), revision].slice(-mostGivenUp);
}

/** What the status shows of the revisions that a record names. */
export function viewRecord({ appliedRevision: applied, appliedAt, inForceRevision: inForce, ...record }: LoopRecord) {
  return { applied, appliedAt, inForce, failed: [...record.failed, ...record.givenUp], stuck: record.stuckRevision };
}

export const emptyRecord: LoopRecord = {
  ...recordShape.parse({ appliedRevision: null, appliedAt: null, knownRules: null }),
  inForceRevision: null,
  isSealed: true,
};

/** Where an earlier record cannot be read, or is not ours. */
export const lostRecord: LoopRecord = { ...emptyRecord, isLost: true };

/** The revisions whose content may be applied because the record names them. */
export function listRevisions(record: Omit<LoopRecord, 'isSealed'>): readonly (string | null)[] {
  return [record.appliedRevision, record.inForceRevision, record.confirmedRevision, record.pendingRevision];
}

export const nothingPending = { pendingRevision: null, pendingUntil: null, graceGiven: false, passedOver: [] };
const nothingConfirmed = { ...nothingPending, confirmedRevision: null, givenUp: [] };

/** This revision waits from now on. What the one before changed and still waits, also to be taken back, waits with it. */
export function notePending({ pendingRevision: left, passedOver }: LoopRecord, revision: string) {
  const passed = left === null ? [] : recordGivenUp(passedOver, left);
  return { ...nothingPending, pendingRevision: revision, passedOver: passed };
}

/** What is in effect is confirmed, but for the confirmed revision while another one is taken back. */
export function noteConfirmed({ confirmedRevision, pendingRevision, givenUp }: LoopRecord, revision: string) {
  if (revision !== confirmedRevision) return { ...nothingConfirmed, confirmedRevision: revision };
  return pendingRevision === givenUp.at(-1) ? {} : nothingPending;
}

/** When the revisions of the record, and this one, were first seen. */
export function noteSeen(record: LoopRecord, revision: string | null, now: number): Pick<LoopRecord, 'firstSeen'> {
  const seen = [...listRevisions(record), revision].filter((one) => one !== null);
  return { firstSeen: Object.fromEntries(seen.map((one) => [one, record.firstSeen[one] ?? now])) };
}

/** What is in force when confirming begins counts as confirmed; without it nothing is pending. */
export function noteConfirming(record: LoopRecord, confirms: boolean): Partial<LoopRecord> {
  if (!confirms) return nothingConfirmed;
  const begins = record.pendingRevision === null && record.confirmedRevision === null;
  return begins ? { confirmedRevision: record.inForceRevision } : {};
}

/** Of what begins or ends soon, that of which nobody was told yet. `before`: what was in force until now. */
export function listUntold(soon: readonly Boundary[], before: DesiredState | null, toldUntil: number) {
  const format = ({ rule, what, at }: Boundary): string => `${formatRuleKey(rule.rule)} ${what} ${at}`;
  const heard = new Set(listBoundaries(before ?? { rules: [] }, 0, toldUntil).map(format));
  return soon.filter((one) => one.at > toldUntil || (before !== null && !heard.has(format(one))));
}

export function agreedAtOf(state: DesiredState | null): Partial<LoopRecord> {
  return state?.at === undefined ? {} : { agreedAt: state.at };
}

/** What was applied, as of the time of this state of the same revision; null: not known. With other values it asked for something else. */
export function turnApplied({ appliedDesired, agreedAt }: LoopRecord, base: DesiredState | null, state: DesiredState) {
  const { at = 0 } = state;
  const isSame = appliedDesired === null || stateAt(state, agreedAt ?? at).digest === appliedDesired;
  return base !== null || isSame ? stateAt(base ?? state, at) : null;
}

/** The ends of a pass that leave its revision stuck; all but the first may have written. */
const sticking: ReadonlySet<ConditionReason> = new Set(['Refused', 'ApplyFailed', 'NotConverging', 'NotConfirmed']);

/** After these nothing new is known. */
const unread: ReadonlySet<ConditionReason> = new Set(['ApiUnreachable', 'Unauthorized', 'SourceFailed']);

/** Which revision is stuck after a pass. Of one that waits, or where nothing can be read, it is what it was. */
function findStuck(record: LoopRecord, { verdict, complaint, content, outcomes = [] }: PassEnding) {
  const { kind, reason, revision = content?.revision ?? null } = complaint ?? verdict;
  const hasFailed = kind !== 'good' && outcomes.some(({ outcome }) => outcome === 'failed' || outcome === 'unknown');
  const isStuck = sticking.has(reason) || (hasFailed && complaint === undefined);
  const stuck = isStuck ? revision : complaint === undefined && !unread.has(reason) ? null : record.stuckRevision;
  return stuck === record.appliedRevision ? null : stuck;
}

/** What a record keeps of the end of a pass: a failed or stuck revision, how much drift was left alone, what may be carried out yet. */
export function recordEnding(record: LoopRecord, end: PassEnding, now: number, requestTimeoutMs: number) {
  const { failed, drift, appliedRevision, openUntil } = record;
  const { complaint, content, result, outcomes = [] } = end;
  const { kind, reason } = end.verdict;
  const revision = content?.revision;
  const isLost = kind === 'terminal' && (reason === 'ApplyFailed' || reason === 'NotConverging');
  const isNew = revision !== undefined && revision !== appliedRevision && complaint === undefined;
  const left = reason === 'DriftReported' ? (result?.plan?.steps.length ?? 0) : drift;
  return {
    failed: isLost && isNew ? recordGivenUp(failed, revision) : failed,
    stuckRevision: findStuck(record, end),
    drift: kind === 'good' ? 0 : left,
    openUntil: boundOpenUntil(
      Math.max(openUntil, findOpenUntil(outcomes, now, requestTimeoutMs)),
      now,
      requestTimeoutMs,
    ),
  };
}

/** Where secrets were sent, as far as a record holds it. */
export function recordSecrets(sent: readonly SecretBinding[]): readonly SecretBinding[] {
  const [most, longest] = [50, 500];
  return sent.filter((one) => JSON.stringify(one).length <= longest).slice(0, most);
}

export interface RecordStore {
  /** Never fails: a record that cannot be read is an empty one, said in the log. */
  load(): Promise<LoopRecord>;
  /** The record of the replica that holds the lease, as it was last seen; null: not known. */
  peek?(): LoopRecord | null;
  /** Whether it is kept now. False: another replica may not know what is about to be written, so it must not be written. */
  save(record: LoopRecord): Promise<boolean>;
}

/** Where the text of a record lies; each call counts only while this replica holds the lease. */
export interface RecordText {
  /** Null: there is none. Rejects when it cannot be read. */
  read(): Promise<string | null>;
  /** What it was when the lease was last found in other hands. */
  seen?(): string | null;
  write(text: string): Promise<boolean>;
}
