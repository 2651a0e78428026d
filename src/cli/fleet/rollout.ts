import { shortenRevision } from '../../controller/conditions.ts';
import type { PassView, Status } from '../../controller/status.ts';
import type { Rollout, Target } from './targets.ts';

/** A target as a roll-out sees it. */
type Participant = Pick<Target, 'name' | 'wave'> & { readonly keeper: { status(): Status } };

type Seen = ReturnType<typeof viewStatus>;

/** What keeps a target from a revision, and how long if that ends by itself (ms). */
interface Hold {
  readonly reason: string;
  readonly leftMs: number | null;
}

/** The ends of a pass after which nobody else begins its revision; all but the first may have written. */
const broken: ReadonlySet<string> = new Set(['Refused', 'ApplyFailed', 'NotConverging', 'NotConfirmed']);

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
 *   maxParallel targets are in their first pass  | waits
 */
export class RolloutGate {
  readonly #members: ReadonlyMap<string, Participant>;
  settings: Rollout;
  readonly #seen = new Map<string, Seen>();
  /** Targets in their first pass with a revision. */
  readonly #busy = new Set<string>();
  /** Those that were told to wait, and for which revision. */
  readonly #waiting = new Map<string, string>();

  constructor(members: readonly Participant[], settings: Rollout) {
    this.#members = new Map(members.map((one) => [one.name, one]));
    this.settings = settings;
  }

  /** Why this target must not begin this revision now; null: it may, and from now on it has. */
  admit(name: string, revision: string, now: number): string | null {
    const member = this.#members.get(name);
    if (member === undefined) return null;
    const { revisions, passes } = member.keeper.status();
    const wrote = passes.some((pass) => pass.revision === revision && pass.outcomes.done + countFailed(pass) > 0);
    const hasBegun = revisions.applied === revision || wrote;
    const isNew = !hasBegun && revisions.attempted !== revision;
    const hold = hasBegun ? null : (this.#holdOf(member, revision, now) ?? (isNew ? this.#crowd(revision) : null));
    if (hold === null) {
      this.#waiting.delete(name);
      if (isNew) this.#busy.add(name);
    } else this.#waiting.set(name, revision);
    return hold?.reason ?? null;
  }

  /** A pass of this target ended. */
  ended(name: string, now: number): void {
    const status = this.#members.get(name)?.keeper.status();
    this.#busy.delete(name);
    if (status === undefined) return;
    const seen = viewStatus(status, now);
    // Which it refused it has not tried again while it waits.
    const broken = status.passes[0]?.reason === 'Waiting' ? this.#seen.get(name)?.broken : null;
    this.#seen.set(name, { ...seen, broken: seen.broken ?? broken ?? null });
  }

  /** Those that were told to wait, and what they wait for now; `hold` null: they may begin. */
  listWaiting(now: number) {
    const holds = new Map<string, Hold | null>();
    let admitted = 0;
    return [...this.#waiting].map(([name, revision]) => {
      const { wave = 1 } = this.#members.get(name) ?? {};
      const key = `${wave} ${revision} ${this.#seen.get(name)?.broken}`;
      if (!holds.has(key)) holds.set(key, this.#holdOf({ name, wave }, revision, now));
      const hold = holds.get(key) ?? this.#crowd(revision, admitted);
      if (hold === null) admitted++;
      return { name, hold };
    });
  }

  /** What the roll-out waits for; null: no target waits. */
  describe(now: number): string | null {
    return this.listWaiting(now).find(({ hold }) => hold !== null)?.hold?.reason ?? null;
  }

  /** Set when as many targets are in their first pass as may be. */
  #crowd(revision: string, more = 0): Hold | null {
    const { maxParallel } = this.settings;
    if (maxParallel === undefined) return null;
    // One whose lease was lost ends no pass here.
    const busy = [...this.#busy].filter((name) => this.#members.get(name)?.keeper.status().role !== 'standby');
    if (busy.length + more < maxParallel) return null;
    return { reason: `${shortenRevision(revision)} waits: maxParallel is ${maxParallel}`, leftMs: null };
  }

  /** What keeps a target that has not begun a revision from it; the same of all of its wave that have not refused it. */
  #holdOf({ name, wave }: Pick<Participant, 'name' | 'wave'>, revision: string, now: number): Hold | null {
    const hold = (why: string, leftMs: number | null = null): Hold => ({
      reason: `${shortenRevision(revision)} ${why}`,
      leftMs,
    });
    const { paused, abort, soak } = this.settings;
    if (paused) return hold('waits: the fleet is paused');
    if (abort !== undefined && revision.replace(/^sha256:/, '').startsWith(abort.replace(/^sha256:/, '')))
      return hold('was aborted by the operator');
    const all = [...this.#members.values()].map((member) => ({ member, seen: this.#look(member, now) }));
    const lost = all.find(({ seen }) => seen.failed?.includes(revision));
    const stuck = all.find(({ seen }) => seen.broken === revision);
    const why = stuck === undefined ? '' : `: ${stuck.seen.message}`;
    if (lost !== undefined) return hold(`failed at ${lost.member.name} and begins nowhere else${why}`);
    if (this.#seen.get(name)?.broken === revision) return null;
    if (stuck !== undefined) return hold(`waits for ${stuck.member.name}${why}`);
    const unread = all.find(({ seen }) => seen.failed === null);
    if (unread !== undefined) return hold(`waits until it is known whether it failed at ${unread.member.name}`);
    const earlier = all.filter(({ member }) => member.wave < wave);
    const late = earlier.find(({ seen }) => seen.settled !== revision);
    if (late !== undefined) return hold(`waits for ${late.member.name} of wave ${late.member.wave}`);
    const leftMs = earlier.reduce((most, { seen }) => Math.max(most, seen.appliedAt + soak - now), 0);
    return leftMs === 0 ? null : hold(`soaks in earlier waves until ${new Date(now + leftMs).toISOString()}`, leftMs);
  }

  #look({ name, keeper }: Participant, now: number): Seen {
    const known = this.#seen.get(name);
    if (known !== undefined) return known;
    const shown = keeper.status();
    const seen = viewStatus(shown, now);
    if (shown.revisions.failed !== null) this.#seen.set(name, seen);
    return seen;
  }
}

/** What of a target's state other targets wait for. */
function viewStatus(status: Status, now: number) {
  const { revisions, passes, role, holder } = status;
  const { Ready, Enforced, Stalled } = status.conditions;
  const isSettled = Ready.status === 'True' && Enforced?.status !== 'False' && Enforced?.status !== 'Unknown';
  // Nobody waits for a record that another replica has, or that nobody can read.
  const isElsewhere = (role === 'standby' && holder !== null) || Stalled.reason === 'BadSettings';
  return {
    /** It converged to this revision, which was confirmed where that is asked, and is enforced where that is looked at. */
    settled: isSettled ? revisions.applied : null,
    appliedAt: revisions.appliedAt ?? now,
    broken: findBroken(status),
    message: passes[0]?.message ?? '',
    /** null: not known yet. */
    failed: revisions.failed ?? (isElsewhere ? [] : null),
  };
}

const countFailed = ({ outcomes }: PassView): number => outcomes.failed + outcomes.unknown;

/** The revision that was refused here, or not carried out. */
function findBroken({ passes: [pass], revisions: { applied, attempted } }: Status): string | null {
  if (pass === undefined) return null;
  const hasFailed = pass.result !== 'good' && countFailed(pass) > 0;
  if (!hasFailed && !broken.has(pass.reason)) return null;
  // While it is taken back, a newer one may have been seen.
  const tried = pass.reason === 'NotConfirmed' ? attempted : null;
  const revision = tried ?? pass.failedRevision ?? pass.revision;
  return revision === applied ? null : revision;
}
