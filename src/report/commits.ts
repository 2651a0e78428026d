import { formatInstant } from '../model/instant.ts';
import { escapeControls } from '../model/printable.ts';
import { computeEffect } from '../policy/effect.ts';
import { listDifferent, type Moment, type VerdictChange } from '../policy/timeline.ts';
import type { Effect } from '../policy/traffic.ts';
import type { Packet } from '../policy/verdict.ts';
import { describePacket, type UserNames } from '../policy/words.ts';
import { formatDecider, makeNamedMembers, makePacketDocument } from './explain.ts';
import { formatTraffic } from './page.ts';
import type { TableAnswer } from './table.ts';
import { makePeople } from './traffic/people.ts';
import { makeEffectDocument } from './traffic-json.ts';

/** A moment as it is told: the commits behind it, what stands below it, the last cells of its rows, and its members for machines. */
interface Entry extends Pick<VerdictChange, 'cause' | 'time' | 'commits'> {
  readonly lines: () => readonly string[];
  readonly rows: () => readonly (readonly string[])[];
  readonly members: Readonly<Record<string, unknown>>;
}

/** What `reconcile blame` answers: a verdict of now, and the changes that led to it, newest first. `from` as `--since` has it. */
export function tellBlame(blame: {
  readonly packet: Packet;
  readonly names: UserNames;
  readonly verdict: string | null;
  readonly changes: readonly VerdictChange[];
  readonly from: string | null;
}): TableAnswer {
  const { packet, names, verdict, changes, from } = blame;
  const entries = changes.map(({ before, after, ...moment }): Entry => {
    const [then, now] = [before, after].map(({ verdict, rule }) => {
      const named = rule && { ...rule, id: null };
      return { text: formatDecider(named, names), members: { verdict, rule: named && makeNamedMembers(named) } };
    });
    return {
      ...moment,
      lines: () => [`${before.verdict} → ${after.verdict}`, `before  ${then?.text}`, `after   ${now?.text}`],
      rows: () => [[after.verdict, then?.text ?? '', now?.text ?? '']],
      members: { before: then?.members, after: now?.members },
    };
  });
  const unchanged = `no commit changed it${from === null ? '' : ` since ${escapeControls(from)}`}`;
  const since = changes[0] === undefined ? unchanged : `since ${formatInstant(changes[0].time)}`;
  const asked = describePacket(packet, names);
  return {
    title: `Commits that changed: ${asked}`,
    text: () => `${escapeControls(asked)}: ${verdict ?? 'not known'}, ${since}\n${listed(entries)}`,
    table: () => tableOf(entries, ['verdict', 'rule before', 'rule after']),
    members: () => ({ packet: makePacketDocument(packet), verdict, changes: entries.map(makeEntryMembers) }),
  };
}

/** What a moment opened and closed; null: nothing. */
export function tellTraffic({ cause, time, before, after, version, commitsOf }: Moment): Entry | null {
  const [then, now] = [before.map(({ rule }) => rule), after.map(({ rule }) => rule)];
  const effect: Effect = computeEffect(then, now);
  if (effect.opens.length === 0 && effect.closes.length === 0) return null;
  const users = [...then, ...now].flatMap(({ userId }) => userId ?? []);
  const people = makePeople(users, version);
  const commits = commitsOf(listDifferent(before, after));
  const rows = () =>
    Object.entries(effect).flatMap(([word, traffic]) => formatTraffic(traffic, people).map((line) => [word, line]));
  const lines = () => rows().map(([word = '', line]) => `${word.padEnd(8)}${line}`);
  return { cause, time, commits, rows, lines, members: makeEffectDocument(effect) };
}

/** What `reconcile log` answers, of what `tellTraffic` told, newest first. */
export function tellLog(entries: readonly Entry[]): TableAnswer {
  return {
    title: 'What each commit opened and closed',
    text: () => (entries.length === 0 ? 'No traffic was opened or closed.\n' : listed(entries)),
    table: () => tableOf(entries, ['change', 'traffic']),
    members: () => ({ changes: entries.map(makeEntryMembers) }),
  };
}

/** `2026-10-02T14:11:00Z  1a2b3c4d  Alice: Close the database`; of a time, who set it. */
function listed(entries: readonly Entry[]): string {
  const told = entries.flatMap(({ cause, time, commits, lines }) => {
    const by = commits.map(({ id, author, subject }) => escapeControls(`${id.slice(0, 12)}  ${author}: ${subject}`));
    const set = cause === 'time' ? 'a rule began or ended, as set by ' : '';
    return [`${formatInstant(time)}  ${set}${by.join('; ')}\n`, ...lines().map((line) => `    ${line}\n`)];
  });
  return told.join('');
}

function tableOf(entries: readonly Entry[], head: readonly string[]): ReturnType<TableAnswer['table']> {
  const rows = entries.flatMap(({ cause, time, commits, rows: own }) => {
    const by = (['id', 'author', 'subject'] as const).map((name) =>
      escapeControls(commits.map((commit) => commit[name]).join('; ')),
    );
    return own().map((cells) => [formatInstant(time), cause, ...by, ...cells]);
  });
  return [['when', 'by', 'commit', 'author', 'subject', ...head], ...rows];
}

function makeEntryMembers({ cause, time, commits, members }: Entry): Readonly<Record<string, unknown>> {
  const by = commits.map((one) => ({ ...one, time: formatInstant(one.time), parents: undefined }));
  return { at: formatInstant(time), cause, commits: by, ...members };
}
