import type { Network } from '../model/address.ts';
import { escapeControls } from '../model/printable.ts';
import { type ReachableTraffic, restrictTraffic } from '../policy/reach.ts';
import type { Traffic } from '../policy/traffic.ts';
import type { Table } from './table.ts';
import { describeTraffic } from './traffic/describe.ts';
import { formatPeople, type People } from './traffic/people.ts';
import { makeTrafficDocument } from './traffic-json.ts';

/** Who can reach what, and who cannot, by group where that is exact. `who`: what those asked about are called, if they fare alike. */
export function tellReach({ accepted, dropped }: ReachableTraffic, people: People, who: string | null): Table {
  const isOne = new Set([...accepted, ...dropped].map(({ user }) => user)).size === 1;
  const rows = (verdict: string, traffic: readonly Traffic[]): Table =>
    describeTraffic(traffic, people, true).map((line) => [isOne ? (who ?? line.who) : line.who, verdict, line.what]);
  return [['who', 'verdict', 'traffic'], ...rows('accept', accepted), ...rows('drop', dropped)];
}

/** Each user with rules of their own and everyone else against each named network: what of it they reach. */
export function tellMatrix(
  { accepted }: ReachableTraffic,
  people: People,
  networks: ReadonlyMap<string, readonly Network[]>,
): Table {
  const columns = [...networks].sort(([a], [b]) => (a < b ? -1 : 1));
  const nameOf = (user: string | null): string =>
    user === null ? 'everyone else' : formatPeople(new Set([user]), { ...people, groups: new Map() });
  const rows = [null, ...[...people.withRules].sort()].map((source) => {
    const theirs = accepted.filter(({ user }) => user === source);
    return [nameOf(source), ...columns.map(([, own]) => cellText(theirs, own, people))];
  });
  return [['who', ...columns.map(([name]) => escapeControls(name))], ...rows];
}

function cellText(accepted: readonly Traffic[], networks: readonly Network[], people: People): string {
  const lines = networks.flatMap((network) =>
    describeTraffic(restrictTraffic(accepted, { network, protocol: null, ports: null }), people, true),
  );
  if (lines.length === 0) return 'nothing';
  const named = new Set(lines.flatMap((line) => (line.networks.length === 0 ? [''] : line.networks)));
  const whole = networks.every(({ text }) => named.has(text)) && named.size === networks.length;
  const [first] = lines;
  if (whole && lines.every(({ words }) => words === first?.words))
    return first?.words === '' ? 'all' : (first?.words ?? '');
  return lines.map(({ what }) => what).join('; ');
}

/** The exact traffic for machines. */
export function makeReachMembers({ accepted, dropped }: ReachableTraffic): Readonly<Record<string, unknown>> {
  return { accepted: accepted.map(makeTrafficDocument), dropped: dropped.map(makeTrafficDocument) };
}
