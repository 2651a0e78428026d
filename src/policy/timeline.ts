import type { Commit } from '../model/commit.ts';
import { type DesiredRule, formatRuleKey, hasTimes, isDesiredAt } from '../model/rule.ts';
import { type Decision, decide } from './decide-packet.ts';
import { indexRules } from './rule-index.ts';
import { matches, type Packet } from './verdict.ts';

/** The rules of a commit, whatever their times. */
export interface Version {
  readonly commit: Commit;
  readonly rules: readonly DesiredRule[];
}

/** A moment at which verdicts may change: a commit, or a time at which rules of the branch's newest commit begin or end. */
export interface Moment<V extends Version> {
  readonly cause: 'commit' | 'time';
  readonly time: number;
  /** Rules in force before: of each version that the commit follows. */
  readonly before: readonly (readonly DesiredRule[])[];
  readonly after: readonly DesiredRule[];
  readonly version: V;
  /** The commit itself; of a time, the one that set this rule's times. */
  readonly commitOf: (rule: DesiredRule) => Commit;
}

/** Follows the versions of a branch, parents before children. */
export interface Timeline<V extends Version> {
  /** The moments up to this commit, in order. Null: it cannot be read, and its children are compared with its parents. */
  readonly add: (commit: Commit, version: V | null) => readonly Moment<V>[];
  /** The moments from the newest commit until now. */
  readonly end: () => readonly Moment<V>[];
}

interface Known<V extends Version> {
  readonly version: V;
  readonly time: number;
  /** Who set the times of rules that have some. */
  readonly setBy: ReadonlyMap<string, Commit>;
}

/** The timeline of the last of these commits (parents before children), with the moments from `since` until `now`. */
export function makeTimeline<V extends Version>(
  commits: readonly Commit[],
  { since, now }: { readonly since: number; readonly now: number },
): Timeline<V> {
  const times = timesOf(commits, now);
  const timeOf = (id: string): number => times.get(id) ?? now;
  const mainline = mainlineOf(commits);
  const known = new Map<string, readonly Known<V>[]>();
  const children = new Map<string, number>();
  for (const id of commits.flatMap(({ parents }) => parents)) children.set(id, (children.get(id) ?? 0) + 1);
  const tip = commits.at(-1)?.id ?? '';
  const release = (id: string): void => {
    const left = (children.get(id) ?? 0) - 1;
    children.set(id, left);
    if (left === 0) known.delete(id);
  };
  return {
    add(commit, version) {
      const { id, parents } = commit;
      const time = timeOf(id);
      const from = [...new Set(parents.flatMap((parent) => known.get(parent) ?? []))];
      const first = known.get(parents[0] ?? '')?.[0];
      for (const parent of parents) release(parent);
      known.set(id, version === null ? from : [{ version, time, setBy: settersOf(version, from) }]);
      if (version === null) return [];
      const passed = first === undefined || !mainline.has(id) ? [] : boundariesOf(first, since, time);
      if (time < since || from.some((one) => one.version.rules === version.rules)) return passed;
      const before = from.length === 0 ? [[]] : from.map((one) => selectRulesAt(one.version, time));
      const after = selectRulesAt(version, time);
      return [...passed, { cause: 'commit', time, before, after, version, commitOf: () => commit }];
    },
    end: () => (known.get(tip) ?? []).slice(0, 1).flatMap((last) => boundariesOf(last, since, now)),
  };
}

/** When each commit counts: not before what it follows, whatever the clocks of its authors said, and not in the future. */
function timesOf(commits: readonly Commit[], now: number): ReadonlyMap<string, number> {
  const times = new Map<string, number>();
  for (const { id, parents, time } of commits) {
    const earliest = parents.reduce((latest, parent) => Math.max(latest, times.get(parent) ?? time), time);
    times.set(id, Math.min(earliest, now));
  }
  return times;
}

/** The newest commit, its first parent, and so on: what the branch itself was at any time. */
function mainlineOf(commits: readonly Commit[]): ReadonlySet<string> {
  const line = new Set<string>();
  let next = commits.at(-1)?.id;
  for (const { id, parents } of [...commits].reverse()) {
    if (id !== next) continue;
    line.add(id);
    next = parents[0];
  }
  return line;
}

/** The rules of a version that are in force at a time. */
export function selectRulesAt({ rules }: Pick<Version, 'rules'>, time: number): readonly DesiredRule[] {
  return rules.some(hasTimes) ? rules.filter((rule) => isDesiredAt(rule, time)) : rules;
}

function timesKey({ rule, notBefore, expires }: DesiredRule): string {
  return `${formatRuleKey(rule)} ${notBefore} ${expires}`;
}

function settersOf<V extends Version>({ rules, commit }: V, from: readonly Known<V>[]): ReadonlyMap<string, Commit> {
  const timed = rules.filter(hasTimes);
  return new Map(
    timed.map((rule) => {
      const key = timesKey(rule);
      return [key, from.find(({ setBy }) => setBy.has(key))?.setBy.get(key) ?? commit];
    }),
  );
}

/** The times after this version and up to another at which its rules begin or end. */
function boundariesOf<V extends Version>(
  { version, time: from, setBy }: Known<V>,
  since: number,
  until: number,
): readonly Moment<V>[] {
  if (setBy.size === 0) return [];
  const times = new Set(version.rules.flatMap(({ notBefore, expires }) => [notBefore ?? from, expires ?? from]));
  return [...times]
    .filter((time) => time > from && time <= until && time >= since)
    .sort((a, b) => a - b)
    .map((time) => ({
      cause: 'time',
      time,
      before: [selectRulesAt(version, time - 1)],
      after: selectRulesAt(version, time),
      version,
      commitOf: (rule) => setBy.get(timesKey(rule)) ?? version.commit,
    }));
}

/** A change of one packet's verdict. */
export interface VerdictChange {
  readonly cause: Moment<Version>['cause'];
  readonly time: number;
  readonly commit: Commit;
  readonly before: Decision<DesiredRule>;
  readonly after: Decision<DesiredRule>;
}

/** How the packet's verdict changes at a moment: it is that of none of the versions before. Null: it does not. */
export function findVerdictChange(
  { cause, time, before, after, version, commitOf }: Moment<Version>,
  packet: Packet,
): VerdictChange | null {
  const now = decideAmong(after, packet);
  const earlier = before.map((rules) => decideAmong(rules, packet));
  const [first] = earlier;
  if (first === undefined || earlier.some(({ verdict }) => verdict === now.verdict)) return null;
  const ended = first.rule?.expires === time ? first.rule : null;
  const rule = ended ?? now.rule;
  return { cause, time, commit: rule === null ? version.commit : commitOf(rule), before: first, after: now };
}

/** The verdict under these rules. */
export function decideAmong(rules: readonly DesiredRule[], packet: Packet): Decision<DesiredRule> {
  return decide(indexRules(rules.filter(({ rule }) => matches(rule, packet))), packet);
}
