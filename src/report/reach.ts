import type { Network } from '../model/address.ts';
import { escapeControls } from '../model/printable.ts';
import { type ReachableTraffic, restrictTraffic, selectTraffic, type TrafficSelector } from '../policy/reach.ts';
import type { Traffic } from '../policy/traffic.ts';
import { escapeProse } from './markdown.ts';
import { describeTraffic, full } from './traffic/describe.ts';
import { formatPeople, nameAll, type People } from './traffic/people.ts';
import { makeTrafficDocument } from './traffic-json.ts';

/** Whose reach is told, and of what. */
export interface ReachQuestion {
  readonly reach: ReachableTraffic;
  readonly names: ReadonlyMap<string, string>;
  readonly groups: ReadonlyMap<string, ReadonlySet<string>>;
  /** Everybody with a rule of their own. */
  readonly withRules: ReadonlySet<string>;
}

/** Rows of cells, the first row being the headings. */
export type Table = readonly (readonly string[])[];

const head = ['who', 'verdict', 'traffic'];

function peopleIn({ names, groups, withRules }: ReachQuestion): People {
  return { names: nameAll(withRules, names), groups, withRules, most: Number.POSITIVE_INFINITY };
}

/** Everything these users can reach and cannot. Users without rules of their own have what everyone has. */
export function tellReachOf(question: ReachQuestion, who: string, users: ReadonlySet<string>): Table {
  const sources = new Set([...users].map((user) => (question.withRules.has(user) ? user : null)));
  const rows = (verdict: string, traffic: readonly Traffic[]): Table =>
    describeTraffic(selectTraffic(traffic, sources), peopleIn(question), full).map(({ what, who: whom }) => [
      sources.size === 1 ? who : whom,
      verdict,
      what,
    ]);
  return [head, ...rows('accept', question.reach.accepted), ...rows('drop', question.reach.dropped)];
}

/** Who can reach a part of all traffic, and who cannot; groups are named where they are exactly those people. */
export function tellWhoReaches(question: ReachQuestion, part: TrafficSelector): Table {
  const { accepted, dropped } = question.reach;
  const reach = { accepted: restrictTraffic(accepted, part), dropped: restrictTraffic(dropped, part) };
  return tellAll({ ...question, reach });
}

/** All of it: by the manifests that name no network, or of one part. */
function tellAll(question: ReachQuestion): Table {
  const rows = (verdict: string, traffic: readonly Traffic[]): Table =>
    describeTraffic(traffic, peopleIn(question), full).map(({ what, who }) => [who, verdict, what]);
  return [head, ...rows('accept', question.reach.accepted), ...rows('drop', question.reach.dropped)];
}

/** Each user with rules of their own and everyone else against each named network: what of it they reach. */
export function tellMatrix(question: ReachQuestion, networks: ReadonlyMap<string, readonly Network[]>): Table {
  const sources = new Map<string, ReadonlySet<string | null>>([['everyone else', new Set([null])]]);
  const people = peopleIn(question);
  for (const user of [...question.withRules].sort())
    sources.set(formatPeople(new Set([user]), { ...people, groups: new Map() }), new Set([user]));
  const columns = [...networks].sort(([a], [b]) => (a < b ? -1 : 1));
  if (columns.length === 0) return tellAll(question);
  const rows = [...sources].map(([who, members]) => [
    who,
    ...columns.map(([, own]) => cellText(selectTraffic(question.reach.accepted, members), own, people)),
  ]);
  return [['who', ...columns.map(([name]) => escapeControls(name))], ...rows];
}

function cellText(accepted: readonly Traffic[], networks: readonly Network[], people: People): string {
  const lines = networks.flatMap((network) =>
    describeTraffic(restrictTraffic(accepted, { network, protocol: null, ports: null }), people, full),
  );
  if (lines.length === 0) return 'nothing';
  const named = new Set(lines.flatMap((line) => (line.networks.length === 0 ? [''] : line.networks)));
  const whole = networks.every(({ text }) => named.has(text)) && named.size === networks.length;
  const [first] = lines;
  if (whole && lines.every(({ words }) => words === first?.words))
    return first?.words === '' ? 'all' : (first?.words ?? '');
  return lines.map(({ what }) => what).join('; ');
}

/** A table for people: columns under each other. */
export function renderTableText(table: Table, columns = Number.POSITIVE_INFINITY): string {
  const widths = (table[0] ?? []).map((_, column) =>
    Math.min(
      60,
      table.reduce((most, row) => Math.max(most, row[column]?.length ?? 0), 0),
    ),
  );
  const lines = table.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
  return lines.some((line) => line.length > columns) ? renderRecords(table) : `${lines.join('\n')}\n`;
}

/** Each row below its first cell, for a terminal that the table does not fit. */
function renderRecords([head = [], ...rows]: Table): string {
  const width = head.reduce((most, cell) => Math.max(most, cell.length), 0);
  const records = rows.map(([first, ...cells]) =>
    [first, ...cells.map((cell, index) => `  ${(head[index + 1] ?? '').padEnd(width)}  ${cell}`)].join('\n'),
  );
  return `${records.join('\n')}\n`;
}

/** A table for a comment or a page in Git. */
export function renderTableMarkdown(table: Table): string {
  const row = (cells: readonly string[]): string => `| ${cells.map((cell) => escapeProse(cell)).join(' | ')} |`;
  const [head = [], ...rest] = table;
  return `${[row(head), `|${head.map(() => '---|').join('')}`, ...rest.map(row)].join('\n')}\n`;
}

/** RFC 4180. A cell that a spreadsheet would take for a formula begins with an apostrophe. */
export function renderTableCsv(table: Table): string {
  const cell = (text: string): string => {
    const safe = /^[=+\-@\t]/.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return table.map((row) => `${row.map(cell).join(',')}\r\n`).join('');
}

/** The exact traffic for machines. */
export function makeReachMembers(
  { reach }: ReachQuestion,
  select: (traffic: readonly Traffic[]) => readonly Traffic[],
): Readonly<Record<string, unknown>> {
  return {
    accepted: select(reach.accepted).map(makeTrafficDocument),
    dropped: select(reach.dropped).map(makeTrafficDocument),
  };
}
