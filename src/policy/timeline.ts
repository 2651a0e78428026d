import type { Commit } from '../model/commit.ts';
import { type DesiredRule, formatRuleKey, hasTimes, selectRulesAt } from '../model/rule.ts';
import { type DesiredState, listBoundaries } from '../model/state.ts';
import { type Decision, decideAmong } from './decide-packet.ts';
import type { Packet } from './verdict.ts';

/** The rules of a commit, whatever their times, and whom they name. */
export interface Version extends Pick<DesiredState, 'userNames' | 'groups'> {
  readonly commit: Commit;
  readonly rules: readonly DesiredRule[];
}

/** A moment at which verdicts may change: a commit, or a time at which rules of the branch's newest commit begin or end. */
export interface Moment {
  readonly cause: 'commit' | 'time';
  readonly time: number;
  /** Rules in force before: of each version that the commit follows. */
  readonly before: readonly (readonly DesiredRule[])[];
  readonly after: readonly DesiredRule[];
  readonly version: Version;
  /** The commit itself; of a time, the one that set this rule's times. */
  readonly commitOf: (rule: DesiredRule) => Commit;
}

interface Known {
  readonly version: Version;
  readonly time: number;
  /** Who set the times of rules that have some. */
  readonly setBy: ReadonlyMap<string, Commit>;
}

/** The timeline of the last of these commits (parents before children), with the moments until `now`. */
export function makeTimeline(commits: readonly Commit[], now: number) {
  const mainline = mainlineOf(commits);
  const times = new Map<string, number>();
  const known = new Map<string, readonly Known[]>();
  const lastChild = new Map(commits.flatMap(({ id, parents }) => parents.map((parent) => [parent, id])));
  return {
    /** The moments up to this commit, in order. Null: it cannot be read, and its children are compared with its parents. */
    add(commit: Commit, version: Version | null): readonly Moment[] {
      const { id, parents } = commit;
      // Not before what it follows, whatever the clocks of its authors said, and not in the future.
      const earliest = parents.reduce((latest, parent) => Math.max(latest, times.get(parent) ?? latest), commit.time);
      const time = Math.min(earliest, now);
      times.set(id, time);
      const from = [...new Set(parents.flatMap((parent) => known.get(parent) ?? []))];
      const first = known.get(parents[0] ?? '')?.[0];
      for (const parent of parents) if (lastChild.get(parent) === id) known.delete(parent);
      known.set(id, version === null ? from : [{ version, time, setBy: settersOf(version, from) }]);
      if (version === null) return [];
      const passed = first === undefined || !mainline.has(id) ? [] : boundariesOf(first, time);
      if (from.some((one) => one.version.rules === version.rules)) return passed;
      const before = from.length === 0 ? [[]] : from.map((one) => selectRulesAt(one.version.rules, time));
      const after = selectRulesAt(version.rules, time);
      return [...passed, { cause: 'commit', time, before, after, version, commitOf: () => commit }];
    },
    /** The moments from the newest commit until now. */
    end(): readonly Moment[] {
      const last = known.get(commits.at(-1)?.id ?? '')?.[0];
      return last === undefined ? [] : boundariesOf(last, now);
    },
  };
}

/** The newest commit, its first parent, and so on: what the branch itself was at any time. */
function mainlineOf(commits: readonly Commit[]): ReadonlySet<string> {
  const firstParent = new Map(commits.map(({ id, parents }) => [id, parents[0]]));
  const line = new Set<string>();
  for (let id = commits.at(-1)?.id; id !== undefined && !line.has(id); id = firstParent.get(id)) line.add(id);
  return line;
}

function timesKey({ rule, notBefore, expires }: DesiredRule): string {
  return `${formatRuleKey(rule)} ${notBefore} ${expires}`;
}

function settersOf({ rules, commit }: Version, from: readonly Known[]): ReadonlyMap<string, Commit> {
  const keys = rules.filter(hasTimes).map(timesKey);
  return new Map(keys.map((key) => [key, from.find(({ setBy }) => setBy.has(key))?.setBy.get(key) ?? commit]));
}

/** The times after this version and up to another at which its rules begin or end. */
function boundariesOf({ version, time: from, setBy }: Known, until: number): readonly Moment[] {
  if (setBy.size === 0) return [];
  const times = new Set(listBoundaries(version, from, until).map(({ at }) => at));
  return [...times]
    .sort((a, b) => a - b)
    .map((time) => ({
      cause: 'time',
      time,
      before: [selectRulesAt(version.rules, time - 1)],
      after: selectRulesAt(version.rules, time),
      version,
      commitOf: (rule) => setBy.get(timesKey(rule)) ?? version.commit,
    }));
}

export interface VerdictChange extends Pick<Moment, 'cause' | 'time'> {
  readonly commit: Commit;
  readonly before: Decision<DesiredRule>;
  readonly after: Decision<DesiredRule>;
}

/** How the packet's verdict changes at a moment: it is that of none of the versions before. Null: it does not. */
export function findVerdictChange(moment: Moment, packet: Packet): VerdictChange | null {
  const { cause, time, before, after, version, commitOf } = moment;
  const now = decideAmong(after, packet);
  const earlier = before.map((rules) => decideAmong(rules, packet));
  const [first] = earlier;
  if (first === undefined || earlier.some(({ verdict }) => verdict === now.verdict)) return null;
  const rule = first.rule?.expires === time ? first.rule : now.rule;
  return { cause, time, commit: rule === null ? version.commit : commitOf(rule), before: first, after: now };
}

/** What a version decides of a packet at a time. */
export function decideAt(version: Version, time: number, packet: Packet): Decision<DesiredRule> {
  return decideAmong(selectRulesAt(version.rules, time), packet);
}
