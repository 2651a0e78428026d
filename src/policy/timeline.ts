import type { Commit } from '../model/commit.ts';
import { collectReachable, groupBy } from '../model/group-by.ts';
import { type DesiredRule, formatRuleKey, hasTimes, selectRulesAt } from '../model/rule.ts';
import { type DesiredState, listBoundaries } from '../model/state.ts';
import { type Decision, decideAmong } from './decide-packet.ts';
import type { Packet } from './verdict.ts';

/** The rules of a commit, whatever their times, and whom they name. */
export interface Version extends Pick<DesiredState, 'userNames' | 'groups'> {
  readonly commit: Commit;
  readonly rules: readonly DesiredRule[];
}

/** A moment at which verdicts may change: a commit of the branch itself, or a time at which rules of its newest one begin or end. */
export interface Moment {
  readonly cause: 'commit' | 'time';
  readonly time: number;
  /** Rules in force before and afterwards. */
  readonly before: readonly DesiredRule[];
  readonly after: readonly DesiredRule[];
  readonly version: Version;
  /** The commit, then those it merged that added or removed one of these rules; of a time, those that set it for one of them. */
  readonly commitsOf: (rules: readonly DesiredRule[]) => readonly Commit[];
}

/** What the branch itself is from a time on. */
interface Known {
  readonly version: Version;
  readonly time: number;
  /** Who set the times of rules that have some. */
  readonly setBy: ReadonlyMap<string, Commit>;
}

/** A commit yet to be merged, or that cannot be read, and the rules that it added or removed. */
interface Step {
  readonly commit: Commit;
  readonly changed: ReadonlySet<string>;
}

/** What `git pull` calls the merge of a branch's state on the remote; without `into` it is of the branch `main` or `master`. */
const pulls = /^Merge (?:branch '([^']+)' of \S+|remote-tracking branch '[^/']+\/([^']+)')(?: into (\S+))?$/;

/** Looks at a rule, at most, for all times at which rules begin or end: some fifteen seconds. */
const mostLooks = 20_000_000;

/** The parent that is the branch itself: the first, or what was pulled into commits that others do not have yet. */
function findFormer({ parents, subject }: Commit): readonly string[] {
  const [, pulled, tracked, into] = pulls.exec(subject) ?? [];
  const name = pulled ?? tracked ?? '';
  const isPull = into === undefined ? ['main', 'master'].includes(name) : name === into;
  return isPull && parents.length === 2 ? parents.slice(1) : parents.slice(0, 1);
}

/** The timeline of the last of these commits (parents before children) and the branch itself before it, with the moments until `now`. */
export function makeTimeline(commits: readonly Commit[], now: number, since: number, looks = mostLooks) {
  const formerOf = new Map(commits.map((one) => [one.id, findFormer(one)]));
  const head = commits.slice(-1).map(({ id }) => id);
  const mainline = collectReachable(head, (id) => formerOf.get(id) ?? []);
  const lastChild = new Map(commits.flatMap(({ id, parents }) => parents.map((parent) => [parent, id])));
  const rulesAt = new Map<string, Version['rules']>();
  const steps = new Map<string, Step>();
  let newest: Known | null = null;
  let [left, until]: [number, number | null] = [looks, null];
  const passUntil = (time: number): readonly Moment[] => {
    const passed = newest === null ? [] : boundariesOf(newest, since, time);
    const { length } = newest?.version.rules ?? [];
    const most = Math.max(0, Math.floor(left / length));
    left -= passed.length * length;
    until ??= passed[most]?.time ?? null;
    return passed.slice(0, most);
  };
  return {
    /** The newest version of the branch itself that can be read. */
    newest: (): Version | null => newest?.version ?? null,
    /** The moments up to this commit, in order. Null: it cannot be read, and its children are compared with its first parent. */
    add(commit: Commit, version: Version | null): readonly Moment[] {
      const { id, parents } = commit;
      const former = rulesAt.get(formerOf.get(id)?.[0] ?? '') ?? [];
      for (const parent of parents) if (lastChild.get(parent) === id) rulesAt.delete(parent);
      const rules = version?.rules ?? former;
      rulesAt.set(id, rules);
      if (version === null || !mainline.has(id)) {
        steps.set(id, { commit, changed: new Set(listDifferent(former, rules).map(timesKey)) });
        return [];
      }
      // Not before what it follows, whatever the clocks of its authors said, and not in the future.
      const time = Math.min(Math.max(newest?.time ?? commit.time, commit.time), now);
      const passed = passUntil(time);
      const merged = takeSteps(parents, steps);
      newest = { version, time, setBy: settersOf(version, newest?.setBy, merged) };
      if (rules === former) return passed;
      const sides = { before: selectRulesAt(former, time), after: selectRulesAt(rules, time) };
      const commitsOf: Moment['commitsOf'] = (asked) => {
        const keys = asked.map(timesKey);
        const own = merged.filter(({ changed }) => keys.some((key) => changed.has(key)));
        return [commit, ...own.map((step) => step.commit)];
      };
      return [...passed, { cause: 'commit', time, ...sides, version, commitsOf }];
    },
    /** The moments from the newest commit until now. */
    end: (): readonly Moment[] => passUntil(now),
    /** The first time that was too many, which is left out with those after it; null: none. */
    until: (): number | null => until,
  };
}

/** Takes out these commits and what they follow, parents before children. */
function takeSteps(last: readonly string[], steps: Map<string, Step>): readonly Step[] {
  const ids = collectReachable(last, (id) => steps.get(id)?.commit.parents ?? []);
  const taken = [...ids].reverse().flatMap((id) => steps.get(id) ?? []);
  for (const id of ids) steps.delete(id);
  return taken;
}

function timesKey({ rule, notBefore, expires }: DesiredRule): string {
  return `${formatRuleKey(rule)} ${notBefore} ${expires}`;
}

/** The rules that only one of the two holds, wherever it is written. Those of unchanged files are one object in both. */
export function listDifferent(before: Version['rules'], after: Version['rules']): readonly DesiredRule[] {
  if (before === after) return [];
  const [left, right] = [new Set(before), new Set(after)];
  const moved = [...before.filter((one) => !right.has(one)), ...after.filter((one) => !left.has(one))];
  return [...groupBy(moved, timesKey).values()].flatMap((same) => (same.length === 1 ? same : []));
}

function settersOf({ rules, commit }: Version, earlier: Known['setBy'] | undefined, merged: readonly Step[]) {
  const keys = rules.filter(hasTimes).map(timesKey);
  const setterOf = (key: string): Commit => merged.find(({ changed }) => changed.has(key))?.commit ?? commit;
  return new Map(keys.map((key) => [key, earlier?.get(key) ?? setterOf(key)]));
}

/** The times after this version and up to another at which its rules begin or end. */
function boundariesOf({ version, time: from, setBy }: Known, since: number, until: number): readonly Moment[] {
  if (setBy.size === 0) return [];
  const times = new Set(listBoundaries(version, Math.max(from, since - 1), until).map(({ at }) => at));
  return [...times]
    .sort((a, b) => a - b)
    .map((time) => ({
      cause: 'time',
      time,
      // Made when they are looked at: those of all times at once would fill the memory.
      get before() {
        return selectRulesAt(version.rules, time - 1);
      },
      get after() {
        return selectRulesAt(version.rules, time);
      },
      version,
      commitsOf: (rules) => [...new Set(rules.map((rule) => setBy.get(timesKey(rule)) ?? version.commit))],
    }));
}

export interface VerdictChange extends Pick<Moment, 'cause' | 'time'> {
  readonly commits: readonly Commit[];
  readonly before: Decision<DesiredRule>;
  readonly after: Decision<DesiredRule>;
}

/** How the packet's verdict changes at a moment. Null: it does not. */
export function findVerdictChange({ cause, time, commitsOf, ...sides }: Moment, packet: Packet): VerdictChange | null {
  const [before, after] = [decideAmong(sides.before, packet), decideAmong(sides.after, packet)];
  if (before.verdict === after.verdict) return null;
  const deciding = new Set([before.rule, after.rule]);
  const turning = listDifferent(sides.before, sides.after).filter((rule) => deciding.has(rule));
  return { cause, time, commits: commitsOf(turning), before, after };
}

/** What a version decides of a packet at a time. */
export function decideAt(version: Version, time: number, packet: Packet): Decision<DesiredRule> {
  return decideAmong(selectRulesAt(version.rules, time), packet);
}
