import type { Network } from '../model/address.ts';
import { groupBy } from '../model/group-by.ts';
import { escapeControls } from '../model/printable.ts';
import { compareText } from '../model/problem.ts';
import { type ReachableTraffic, restrictTraffic } from '../policy/reach.ts';
import type { Traffic } from '../policy/traffic.ts';
import type { Table } from './table.ts';
import { describeTraffic } from './traffic/describe.ts';
import type { People } from './traffic/people.ts';
import { makeTrafficDocument } from './traffic-json.ts';

/** Who can reach what, and who cannot, by group where that is exact. `who`: what those asked about are called, if they fare alike. */
export function tellReach({ accepted, dropped }: ReachableTraffic, people: People, who: string | null): Table {
  const isOne = new Set([...accepted, ...dropped].map(({ user }) => user)).size === 1;
  const rows = (verdict: string, traffic: readonly Traffic[]): Table =>
    describeTraffic(traffic, people, true).map((line) => [isOne ? (who ?? line.who) : line.who, verdict, line.what]);
  return [['who', 'verdict', 'traffic'], ...rows('accept', accepted), ...rows('drop', dropped)];
}

/** Networks under one name. */
interface NamedNetworks {
  readonly name: string;
  readonly networks: readonly { readonly value: Network }[];
}

/** Each user with rules of their own and everyone else against each named network: what of it they reach. */
export function tellMatrix({ accepted }: ReachableTraffic, people: People, networks: readonly NamedNetworks[]): Table {
  const columns = networks.toSorted((a, b) => compareText(a.name, b.name));
  const byUser = groupBy(accepted, ({ user }) => user);
  const rows = [null, ...[...people.withRules].sort()].map((user) => {
    const who = user === null ? 'everyone else' : escapeControls(people.names.get(user) ?? user);
    return [who, ...columns.map((column) => cellText(byUser.get(user) ?? [], column, people))];
  });
  return [['who', ...columns.map(({ name }) => escapeControls(name))], ...rows];
}

function cellText(accepted: readonly Traffic[], { networks }: NamedNetworks, people: People): string {
  const lines = networks.flatMap(({ value: network }) =>
    describeTraffic(restrictTraffic(accepted, { network, protocol: null, ports: null }), people, true),
  );
  if (lines.length === 0) return 'nothing';
  const words = lines[0]?.words ?? '';
  // All of the networks is reached, and alike.
  const isWhole = networks.every(({ value }, at) => lines[at]?.what === `${value.text} ${words}`.trimEnd());
  return isWhole && lines.length === networks.length ? words || 'all' : lines.map(({ what }) => what).join('; ');
}

/** The exact traffic for machines. */
export function makeReachMembers({ accepted, dropped }: ReachableTraffic): Readonly<Record<string, unknown>> {
  return { accepted: accepted.map(makeTrafficDocument), dropped: dropped.map(makeTrafficDocument) };
}

/** The table of `tellMatrix` for machines. */
export function makeMatrixMembers([head = [], ...rows]: Table): Readonly<Record<string, unknown>> {
  const networksOf = (cells: readonly string[]) => Object.fromEntries(cells.map((cell, at) => [head[at + 1], cell]));
  return { matrix: rows.map(([who, ...cells]) => ({ who, networks: networksOf(cells) })) };
}
