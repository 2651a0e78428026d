import { type Family, parseNetwork } from '../../model/address.ts';
import { getOrMake, groupBy } from '../../model/group-by.ts';
import type { Interval } from '../../model/intervals.ts';
import type { Traffic } from '../../policy/traffic.ts';
import type { Piece } from './networks.ts';
import { combineProtocols, isNoProtocols, isSameProtocols, noProtocols, type Protocols } from './protocols.ts';

/** Traffic that the same sources have: users by UUID, null for everyone without rules of their own. */
export interface SourceTraffic {
  readonly users: ReadonlySet<string | null>;
  /** Ascending by family and address. */
  readonly pieces: readonly Piece[];
}

/** Pairs of a stretch of addresses and a class of sources looked at, at most; above it classes are not compared. */
const mostCompared = 1_000_000;

/** The same traffic, cut so that what everyone has stands once, and only what is left is said of single people. */
export function groupBySources(traffic: readonly Traffic[]): readonly SourceTraffic[] {
  const classes = classesOf(traffic);
  const edges = classes.reduce((sum, { pieces }) => sum + pieces.length, 0);
  if (classes.length < 2 || edges * classes.length > mostCompared) return classes;
  const groups = new Map<string, SourceTraffic & { readonly pieces: Piece[] }>();
  for (const family of [4, 6] as const) {
    const spans = classes.flatMap(({ pieces }, index) =>
      pieces.flatMap(({ protocols, ...piece }) =>
        piece.family === family ? [{ ...piece, value: { index, protocols } }] : [],
      ),
    );
    for (const { active, ...stretch } of stretchesOf(spans)) {
      for (const [key, protocols] of splitByClasses(active)) {
        const group = getOrMake(groups, key, () => ({ users: usersOf(key, classes), pieces: [] }));
        addPiece(group.pieces, { family, ...stretch, protocols });
      }
    }
  }
  return [...groups.values()];
}

/** Users with exactly the same traffic are one entry. */
function classesOf(traffic: readonly Traffic[]): readonly SourceTraffic[] {
  const texts = new Map<readonly string[], string>();
  const keyOf = ({ protocol, ports, destinations }: Traffic): string => {
    const ranges = (ports ?? []).map(({ low, high }) => `${low}-${high}`).join(',');
    return `${protocol} ${ranges} ${getOrMake(texts, destinations, () => destinations.join(' '))}`;
  };
  const byUser = groupBy(traffic, ({ user }) => user);
  const alike = groupBy(byUser, ([, own]) => own.map(keyOf).join('\n'));
  return [...alike.values()].map((members) => ({
    users: new Set(members.map(([user]) => user)),
    pieces: piecesOf(members[0]?.[1] ?? []),
  }));
}

/** One source's traffic as ascending stretches of addresses, each with all its protocols. */
function piecesOf(traffic: readonly Traffic[]): readonly Piece[] {
  const spans: Readonly<Record<Family, Span<Pick<Traffic, 'protocol' | 'ports'>>[]>> = { 4: [], 6: [] };
  for (const { destinations, protocol, ports } of traffic) {
    for (const text of destinations) {
      const parsed = parseNetwork(text);
      if (!parsed.ok) continue;
      const { family, first, last } = parsed.value.network;
      spans[family].push({ first, last, value: { protocol, ports } });
    }
  }
  return ([4, 6] as const).flatMap((family) => {
    const pieces: Piece[] = [];
    for (const { active, ...stretch } of stretchesOf(spans[family])) {
      let protocols = noProtocols;
      for (const { protocol, ports } of active) protocols = { ...protocols, [protocol]: ports ?? true };
      addPiece(pieces, { family, ...stretch, protocols });
    }
    return pieces;
  });
}

/** Adds a piece behind the last; one that goes on with the same traffic makes it longer. */
function addPiece(pieces: Piece[], piece: Piece): void {
  const previous = pieces.at(-1);
  const goesOn =
    previous !== undefined &&
    previous.family === piece.family &&
    previous.last + 1n === piece.first &&
    isSameProtocols(previous.protocols, piece.protocols);
  if (goesOn) pieces[pieces.length - 1] = { ...previous, last: piece.last };
  else pieces.push(piece);
}

/** Addresses that something is said of. */
interface Span<T> extends Interval {
  readonly value: T;
}

/** Stretches of addresses, ascending, each with what is said of all of it (distinct objects; the set is reused). */
function* stretchesOf<T extends object>(
  spans: readonly Span<T>[],
): Generator<Interval & { readonly active: ReadonlySet<T> }> {
  const edges = spans
    .flatMap(({ first, last, value }) => [
      { at: first, value, begins: true },
      { at: last + 1n, value, begins: false },
    ])
    .sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
  const active = new Set<T>();
  let from = 0n;
  for (const { at, value, begins } of edges) {
    if (at > from && active.size > 0) yield { first: from, last: at - 1n, active };
    if (begins) active.add(value);
    else active.delete(value);
    from = at;
  }
}

/** Traffic of one class of sources, by its index. */
interface OfClass {
  readonly index: number;
  readonly protocols: Protocols;
}

/** The traffic of one stretch by the classes that have it; keys are the classes' sorted indexes. */
function splitByClasses(active: ReadonlySet<OfClass>): ReadonlyMap<string, Protocols> {
  let parts: { readonly members: readonly number[]; readonly protocols: Protocols }[] = [];
  for (const { index, protocols } of [...active].sort((a, b) => a.index - b.index)) {
    let left = protocols;
    const next: typeof parts = [];
    for (const part of parts) {
      const both = combineProtocols(part.protocols, left, (a, b) => a && b);
      const only = combineProtocols(part.protocols, left, (a, b) => a && !b);
      left = combineProtocols(left, part.protocols, (a, b) => a && !b);
      if (!isNoProtocols(both)) next.push({ members: [...part.members, index], protocols: both });
      if (!isNoProtocols(only)) next.push({ members: part.members, protocols: only });
    }
    if (!isNoProtocols(left)) next.push({ members: [index], protocols: left });
    parts = next;
  }
  const byKey = new Map<string, Protocols>();
  for (const { members, protocols } of parts) {
    const key = members.join(' ');
    const same = byKey.get(key);
    byKey.set(key, same === undefined ? protocols : combineProtocols(same, protocols, (a, b) => a || b));
  }
  return byKey;
}

function usersOf(key: string, classes: readonly SourceTraffic[]): ReadonlySet<string | null> {
  return new Set(key.split(' ').flatMap((index) => [...(classes[Number(index)]?.users ?? [])]));
}
