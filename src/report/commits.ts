import type { Commit } from '../model/commit.ts';
import { formatInstant } from '../model/instant.ts';
import { escapeControls } from '../model/printable.ts';
import type { Moment, VerdictChange } from '../policy/timeline.ts';
import type { Effect } from '../policy/traffic.ts';
import type { Packet } from '../policy/verdict.ts';
import { describePacket } from '../policy/words.ts';
import { formatDecider, makeNamedMembers, makePacketDocument } from './explain.ts';
import { formatTraffic } from './page.ts';
import type { UserNames } from './rule-text.ts';
import type { TableAnswer } from './table.ts';
import type { People } from './traffic/people.ts';
import { makeEffectDocument } from './traffic-json.ts';

/** What a moment opened and closed. */
export interface TrafficChange extends Pick<Moment, 'cause' | 'time'> {
  /** The commits behind it. */
  readonly commits: readonly Commit[];
  readonly effect: Effect;
  readonly people: People;
}

/** A verdict of now, and the changes that led to it, newest first. */
export interface Blame {
  readonly packet: Packet;
  readonly names: UserNames;
  readonly verdict: string | null;
  readonly changes: readonly VerdictChange[];
  /** As `--since` has it; what came before was not asked for. */
  readonly from: string | null;
}

/** A moment as it is told: what stands below it, the last cells of its rows, and its members for machines. */
interface Entry extends Omit<TrafficChange, 'effect' | 'people'> {
  readonly lines: () => readonly string[];
  readonly rows: () => readonly (readonly string[])[];
  readonly members: Readonly<Record<string, unknown>>;
}

/** What `reconcile blame` answers. */
export function tellBlame({ packet, names, verdict, changes, from }: Blame): TableAnswer {
  const entries = changes.map(({ commit, before, after, ...moment }): Entry => {
    const [then, now] = [before, after].map(({ verdict, rule }) => {
      const named = rule && { ...rule, id: null };
      return { text: formatDecider(named, names), members: { verdict, rule: named && makeNamedMembers(named) } };
    });
    return {
      ...{ ...moment, commits: [commit] },
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

/** What `reconcile log` answers. */
export function tellLog(changes: readonly TrafficChange[]): TableAnswer {
  const entries = changes.map(({ effect, people, ...moment }): Entry => {
    const rows = () =>
      Object.entries(effect).flatMap(([word, traffic]) => formatTraffic(traffic, people).map((line) => [word, line]));
    const lines = () => rows().map(([word = '', line]) => `${word.padEnd(8)}${line}`);
    return { ...moment, rows, lines, members: makeEffectDocument(effect) };
  });
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
