import { shortenRevision } from '../../controller/conditions.ts';
import type { Status } from '../../controller/status.ts';
import { getOrMake } from '../../model/group-by.ts';
import type { SharedWatch } from '../watch/invocation.ts';
import type { Rollout, Target } from './targets.ts';

type Participant = Pick<Target, 'name' | 'wave'> & { readonly keeper: { status(): Status } };

/**
 * Lets targets begin a revision wave by wave. It rests on what each controller keeps of itself, so that a roll-out goes on
 * after a restart where it was. The first row that applies counts:
 *
 *   the target has it, or has written some of it | it goes on
 *   the fleet is paused, or the revision aborted | waits
 *   some target could not carry it out           | waits for another revision
 *   the target refused it before                 | tries again
 *   some target refuses it now, or fails         | waits
 *   the record of a target has not been read     | waits
 *   a target of an earlier wave has not settled  | waits
 *   the soak after the earlier waves             | waits until it is over
 *   maxParallel others are about to begin one    | waits
 */
export class RolloutGate<Member extends Participant> {
  readonly #members: readonly Member[];
  settings: Rollout;
  /** Targets in their first pass with a revision, or in the one that begins to write it. */
  readonly #busy = new Set<Member>();
  /** Those that were told to wait, for which revision, and whether they were woken since. */
  readonly #waiting = new Map<Member, { readonly revision: string; isWoken: boolean }>();

  constructor(members: readonly Member[], settings: Rollout) {
    this.#members = members;
    this.settings = settings;
  }

  /** Why this target must not go on with this revision now; null: it may. */
  admit(member: Member, revision: string, stage: Parameters<SharedWatch['hold']>[1], now: number): string | null {
    const { applied, attempted } = member.keeper.status().revisions;
    const hasBegun = stage === 'in-force' || applied === revision;
    const begins = stage === 'first-write' || attempted !== revision || this.#waiting.has(member);
    const crowd = begins ? this.#crowd(revision, member) : null;
    const hold = hasBegun ? null : (this.#holdOf(member, revision, now) ?? crowd);
    if (hold !== null) this.#waiting.set(member, { revision, isWoken: false });
    else this.#waiting.delete(member);
    if (hold === null && begins && !hasBegun) this.#busy.add(member);
    return hold;
  }

  ended(member: Member): void {
    this.#busy.delete(member);
  }

  /** Those that were told to wait and may begin now; each once until it asks again, which its source may prevent for long. */
  release(now: number): readonly Member[] {
    const free = this.#listWaiting(now).filter(({ asked, hold }) => hold === null && !asked.isWoken);
    return free.slice(0, this.#countRoom()).map(({ member, asked }) => {
      asked.isWoken = true;
      return member;
    });
  }

  /** What the roll-out waits for; null: no target waits, and none would have to. */
  describe(now: number): string | null {
    const reasons = this.#listWaiting(now).map(({ asked, hold }) => hold ?? this.#crowd(asked.revision));
    return reasons.find((reason) => reason !== null) ?? (this.settings.paused ? 'the fleet is paused' : null);
  }

  #listWaiting(now: number) {
    const holds = new Map<string, string | null>();
    const waiting = [...this.#waiting].filter(([{ keeper }]) => keeper.status().role === 'writer');
    return waiting.map(([member, asked]) => {
      const key = `${member.wave} ${asked.revision} ${member.keeper.status().revisions.stuck}`;
      const hold = getOrMake(holds, key, () => this.#holdOf(member, asked.revision, now));
      return { member, asked, hold };
    });
  }

  /** How many targets may begin beside those that do, of which this one may be. */
  #countRoom(self?: Member): number {
    // One whose lease was lost ends no pass here.
    const busy = [...this.#busy].filter((one) => one !== self && one.keeper.status().role === 'writer');
    return Math.max(0, (this.settings.maxParallel ?? Number.POSITIVE_INFINITY) - busy.length);
  }

  #crowd(revision: string, self?: Member): string | null {
    if (this.#countRoom(self) > 0) return null;
    return `${shortenRevision(revision)} waits: maxParallel is ${this.settings.maxParallel}`;
  }

  /** What keeps a target that has not begun a revision from it; the same of all of its wave that have not refused it. */
  #holdOf(target: Member, revision: string, now: number): string | null {
    const hold = (why: string): string => `${shortenRevision(revision)} ${why}`;
    const { paused, abort, soak } = this.settings;
    if (paused) return hold('waits: the fleet is paused');
    if (abort !== undefined && revision.replace(/^sha256:/, '').startsWith(abort.replace(/^sha256:/, '')))
      return hold('was aborted by the operator');
    const all = this.#members.map((member) => ({ member, seen: viewStatus(member.keeper.status(), now) }));
    const lost = all.find(({ seen }) => seen.failed?.includes(revision));
    const stuck = all.find(({ seen }) => seen.stuck === revision);
    if (lost) return hold(`failed at ${lost.member.name} and begins nowhere else${stuck?.seen.why ?? ''}`);
    if (target.keeper.status().revisions.stuck === revision) return null;
    if (stuck !== undefined) return hold(`waits for ${stuck.member.name}${stuck.seen.why}`);
    const unread = all.find(({ seen }) => seen.failed === null);
    if (unread !== undefined) return hold(`waits until it is known whether it failed at ${unread.member.name}`);
    const earlier = all.filter(({ member }) => member.wave < target.wave);
    const late = earlier.find(({ seen }) => seen.settled !== revision);
    if (late !== undefined) return hold(`waits for ${late.member.name} of wave ${late.member.wave}`);
    const leftMs = earlier.reduce((most, { seen }) => Math.max(most, seen.appliedAt + soak - now), 0);
    return leftMs === 0 ? null : hold(`soaks in earlier waves until ${new Date(now + leftMs).toISOString()}`);
  }
}

/** What of a target's state other targets wait for. */
function viewStatus({ revisions, passes: [pass], role, holder, conditions }: Status, now: number) {
  const { Ready, Enforced } = conditions;
  const isSettled = Ready.status === 'True' && Enforced?.status !== 'False' && Enforced?.status !== 'Unknown';
  return {
    /** It converged to this revision, which was confirmed where that is asked, and is enforced where that is looked at. */
    settled: isSettled ? revisions.applied : null,
    appliedAt: revisions.appliedAt ?? now,
    stuck: revisions.stuck,
    why: pass === undefined ? '' : `: ${pass.message}`,
    /** null: not known yet. Nobody waits for a record that another replica has not written yet. */
    failed: revisions.failed ?? (role === 'standby' && holder !== null ? [] : null),
  };
}
