import { findFirstPosition } from '../model/group-by.ts';
import type { Protocol } from '../model/state.ts';
import { getLastPort } from './port-set.ts';
import type { Ruled } from './rule-index.ts';
import { getRank, noRank, type Rank } from './verdict.ts';

/** A value for every port: `values[i]` from port `starts[i]` to the one before `starts[i + 1]`. Neighbouring values differ. */
export interface PortProfile<V> {
  readonly starts: readonly number[];
  readonly values: readonly V[];
}

/** What the rules that match a packet come to. */
export interface Fold<T extends Ruled, V> {
  /** The value where no rule matches. */
  readonly nothing: V;
  /** Rules with a lower key come first among those that are added. */
  readonly keyOf: (item: T) => number;
  /** The value where these rules, of one network, match too; `outer` itself where they make no difference. */
  readonly add: (outer: V, items: readonly T[]) => V;
}

export type RankProfile = PortProfile<Rank | typeof noRank>;

export const bestRank: Fold<Ruled, Rank | typeof noRank> = {
  nothing: noRank,
  keyOf: ({ rule }) => getRank(rule),
  add: (outer, [item]) => (item === undefined ? outer : (Math.min(outer, getRank(item.rule)) as typeof outer)),
};

export function makeFlatProfile<V>(value: V): PortProfile<V> {
  return { starts: [0], values: [value] };
}

/** The profile where these rules match too, each on its ports. */
export function extendProfile<T extends Ruled, V>(
  profile: PortProfile<V>,
  items: readonly T[],
  { keyOf, add }: Fold<T, V>,
  protocol: Protocol,
): PortProfile<V> {
  const end = getLastPort(protocol) + 1;
  const sorted = items.toSorted((a, b) => keyOf(a) - keyOf(b));
  const edges = sorted.flatMap(({ rule: { ports } }, item) => [
    { port: ports?.low ?? 0, item },
    { port: (ports?.high ?? end - 1) + 1, item },
  ]);
  edges.sort((a, b) => a.port - b.port);
  const low = edges[0]?.port ?? end;
  let piece = findPiece(profile, low);
  const from = Math.max(0, piece - 1);
  const [starts, values] = [profile.starts.slice(from, piece + 1), profile.values.slice(from, piece + 1)];
  const put = (start: number, value: V): void => {
    if (starts.at(-1) === start) {
      starts.pop();
      values.pop();
    }
    if (starts.length > 0 && values.at(-1) === value) return;
    starts.push(start);
    values.push(value);
  };
  const active: number[] = [];
  for (let [port, next] = [low, 0]; next < edges.length; ) {
    for (let edge = edges[next]; edge !== undefined && edge.port <= port; edge = edges[++next]) {
      toggle(active, edge.item);
    }
    const matching = active.map((item) => sorted[item] as T);
    const until = edges[next]?.port ?? port;
    while (port < until) {
      const outer = profile.values[piece] as V;
      put(port, matching.length === 0 ? outer : add(outer, matching));
      port = Math.min(profile.starts[piece + 1] ?? end, until);
      if (port === profile.starts[piece + 1]) piece++;
    }
    if (next === edges.length && port < end) put(port, profile.values[piece] as V);
  }
  // A piece a port at most, which a call takes; `concat` would copy all twice.
  return {
    starts: profile.starts.toSpliced(from, piece + 1 - from, ...starts),
    values: profile.values.toSpliced(from, piece + 1 - from, ...values),
  };
}

/** Adds the number to the ascending ones, or takes it out. */
function toggle(numbers: number[], one: number): void {
  const at = findFirstPosition(numbers.length, (index) => (numbers[index] as number) >= one);
  if (numbers[at] === one) numbers.splice(at, 1);
  else numbers.splice(at, 0, one);
}

export function getValueAt<V>(profile: PortProfile<V>, port: number): V {
  return profile.values[findPiece(profile, port)] as V;
}

function findPiece({ starts }: PortProfile<unknown>, port: number): number {
  return findFirstPosition(starts.length, (index) => (starts[index] as number) > port) - 1;
}

/** Visits the port ranges, ascending, with their values. */
export function eachPortRange<V>(
  { starts, values }: PortProfile<V>,
  protocol: Protocol,
  visit: (low: number, high: number, value: V) => void,
): void {
  const end = getLastPort(protocol) + 1;
  for (const [index, low] of starts.entries()) visit(low, (starts[index + 1] ?? end) - 1, values[index] as V);
}
