import type { Commit } from '../model/commit.ts';
import { formatInstant } from '../model/instant.ts';
import { escapeControls } from '../model/printable.ts';
import type { DesiredRule } from '../model/rule.ts';
import type { VerdictChange } from '../policy/timeline.ts';
import type { Effect } from '../policy/traffic.ts';
import type { Packet } from '../policy/verdict.ts';
import { describePacket } from '../policy/words.ts';
import { formatNamedRule, makeNamedMembers } from './explain.ts';
import { formatTraffic } from './page.ts';
import type { Table } from './reach.ts';
import type { UserNames } from './rule-text.ts';
import type { People } from './traffic/people.ts';
import { makeTrafficDocument } from './traffic-json.ts';

/** What the answers of `blame` and `log` say of a moment: when, and whose commit. */
interface Told {
  readonly cause: 'commit' | 'time';
  readonly time: number;
}

/** What a moment opened and closed. */
export interface TrafficChange extends Told {
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
}

/** `2026-10-02T14:11:00Z  1a2b3c4d  Alice: Close the database`; of a time, who set it. */
function momentText({ cause, time }: Told, commits: readonly Commit[]): string {
  const told = commits.map(({ id, author, subject }) => escapeControls(`${id.slice(0, 12)}  ${author}: ${subject}`));
  const set = cause === 'time' ? 'a rule began or ended, as set by ' : '';
  return `${formatInstant(time)}  ${set}${told.join('; ')}`;
}

function momentCells({ cause, time }: Told, commits: readonly Commit[]): readonly string[] {
  const column = (of: (commit: Commit) => string): string => escapeControls(commits.map(of).join('; '));
  return [
    formatInstant(time),
    cause,
    column(({ id }) => id),
    column(({ author }) => author),
    column(({ subject }) => subject),
  ];
}

const momentHead = ['when', 'by', 'commit', 'author', 'subject'];

function momentMembers({ cause, time }: Told, commits: readonly Commit[]): Readonly<Record<string, unknown>> {
  return {
    at: formatInstant(time),
    cause,
    commits: commits.map((one) => ({ ...one, time: formatInstant(one.time), parents: undefined })),
  };
}

/** `reconcile blame` for a person. */
export function renderBlame({ packet, names, verdict, changes }: Blame): string {
  const [latest] = changes;
  const since = latest === undefined ? 'no commit changed it' : `since ${formatInstant(latest.time)}`;
  const entries = changes.map((change) =>
    [
      momentText(change, [change.commit]),
      `    ${change.before.verdict} → ${change.after.verdict}`,
      `    before  ${ruleWords(change.before.rule, names)}`,
      `    after   ${ruleWords(change.after.rule, names)}`,
      '',
    ].join('\n'),
  );
  return `${escapeControls(describePacket(packet, names))}: ${verdict ?? 'not known'}, ${since}\n${entries.join('')}`;
}

function ruleWords(rule: DesiredRule | null, names: UserNames): string {
  return rule === null ? 'no rule: what none matches is accepted' : formatNamedRule({ ...rule, id: null }, names);
}

/** A row for each change. */
export function makeBlameTable({ names, changes }: Blame): Table {
  const rows = changes.map((change) => [
    ...momentCells(change, [change.commit]),
    change.after.verdict,
    ruleWords(change.before.rule, names),
    ruleWords(change.after.rule, names),
  ]);
  return [[...momentHead, 'verdict', 'rule before', 'rule after'], ...rows];
}

/** The same for machines. */
export function makeBlameMembers({ packet, verdict, changes }: Blame): Readonly<Record<string, unknown>> {
  const side = ({ verdict: own, rule }: VerdictChange['before']) => ({
    verdict: own,
    rule: rule === null ? null : makeNamedMembers({ ...rule, id: null }),
  });
  const { user, address, protocol, port } = packet;
  return {
    packet: { user, destination: address.text, protocol, port: protocol === 'other' ? null : port },
    verdict,
    changes: changes.map((change) => ({
      ...momentMembers(change, [change.commit]),
      before: side(change.before),
      after: side(change.after),
    })),
  };
}

function lines({ effect: { opens, closes }, people }: TrafficChange): readonly (readonly [string, string])[] {
  return [
    ...formatTraffic(opens, people).map((line) => ['opens', line] as const),
    ...formatTraffic(closes, people).map((line) => ['closes', line] as const),
  ];
}

/** `reconcile log` for a person. */
export function renderLog(changes: readonly TrafficChange[]): string {
  if (changes.length === 0) return 'No traffic was opened or closed.\n';
  const entries = changes.map((change) => {
    const told = lines(change).map(([word, line]) => `    ${word.padEnd(8)}${line}\n`);
    return `${momentText(change, change.commits)}\n${told.join('')}`;
  });
  return entries.join('');
}

/** A row for each line of traffic. */
export function makeLogTable(changes: readonly TrafficChange[]): Table {
  const rows = changes.flatMap((change) =>
    lines(change).map((line) => [...momentCells(change, change.commits), ...line]),
  );
  return [[...momentHead, 'change', 'traffic'], ...rows];
}

/** The exact traffic for machines. */
export function makeLogMembers(changes: readonly TrafficChange[]): Readonly<Record<string, unknown>> {
  return {
    changes: changes.map((change) => ({
      ...momentMembers(change, change.commits),
      opens: change.effect.opens.map(makeTrafficDocument),
      closes: change.effect.closes.map(makeTrafficDocument),
    })),
  };
}
