import { type Family, parseNetwork } from '../../model/address.ts';
import type { PortRange } from '../../model/port-range.ts';
import type { PortSet } from '../../policy/port-set.ts';
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
  if (classes.length < 2 || edges * classes.length > mostCompared) {
    return classes.map(({ users, pieces }) => ({ users: new Set(users), pieces }));
  }
  const groups = new Map<string, { users: Set<string | null>; pieces: Piece[] }>();
  for (const family of [4, 6] as const) {
    for (const stretch of stretchesOf(classes, family)) {
      for (const [key, protocols] of splitByClasses(stretch.active)) {
        const group = groups.get(key) ?? { users: usersOf(key, classes), pieces: [] };
        groups.set(key, group);
        addPiece(group.pieces, { family, first: stretch.first, last: stretch.last, protocols });
      }
    }
  }
  return [...groups.values()];
}

/** Users with exactly the same traffic. */
interface SourceClass {
  readonly users: readonly (string | null)[];
  readonly pieces: readonly Piece[];
}

function classesOf(traffic: readonly Traffic[]): readonly SourceClass[] {
  const texts = new Map<readonly string[], string>();
  const byUser = new Map<string | null, { key: string[]; traffic: Traffic[] }>();
  for (const one of traffic) {
    const destinations = texts.get(one.destinations) ?? one.destinations.join(' ');
    texts.set(one.destinations, destinations);
    const ports = (one.ports ?? []).map(({ low, high }) => `${low}-${high}`).join(',');
    const entry = byUser.get(one.user) ?? { key: [], traffic: [] };
    byUser.set(one.user, entry);
    entry.key.push(`${one.protocol} ${ports} ${destinations}`);
    entry.traffic.push(one);
  }
  const classes = new Map<string, { users: (string | null)[]; traffic: readonly Traffic[] }>();
  for (const [user, entry] of byUser) {
    const key = entry.key.join('\n');
    const same = classes.get(key);
    if (same === undefined) classes.set(key, { users: [user], traffic: entry.traffic });
    else same.users.push(user);
  }
  return [...classes.values()].map(({ users, traffic: own }) => ({ users, pieces: piecesOf(own) }));
}

interface Edge {
  readonly at: bigint;
  readonly protocol: Traffic['protocol'];
  /** What begins here; null: what began before ends. */
  readonly ports: PortSet | null;
}

const oneRange: readonly PortRange[] = [{ low: 0, high: 0 }];

/** One source's traffic as ascending stretches of addresses, each with all its protocols. */
function piecesOf(traffic: readonly Traffic[]): readonly Piece[] {
  const edges: Readonly<Record<Family, Edge[]>> = { 4: [], 6: [] };
  for (const { destinations, protocol, ports } of traffic) {
    for (const text of destinations) {
      const parsed = parseNetwork(text);
      if (!parsed.ok) continue;
      const { family, first, last } = parsed.value.network;
      edges[family].push({ at: first, protocol, ports: ports ?? oneRange }, { at: last + 1n, protocol, ports: null });
    }
  }
  return ([4, 6] as const).flatMap((family) => {
    const pieces: Piece[] = [];
    const inOrder = edges[family].sort((a, b) =>
      a.at < b.at ? -1 : a.at > b.at ? 1 : Number(a.ports !== null) - Number(b.ports !== null),
    );
    let here: Protocols = noProtocols;
    let from = 0n;
    for (const { at, protocol, ports } of inOrder) {
      if (at > from && !isNoProtocols(here)) addPiece(pieces, { family, first: from, last: at - 1n, protocols: here });
      here = { ...here, [protocol]: protocol === 'other' ? ports !== null : (ports ?? []) };
      from = at;
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

interface Stretch {
  readonly first: bigint;
  readonly last: bigint;
  /** By the index of their class. */
  readonly active: ReadonlyMap<number, Protocols>;
}

function* stretchesOf(classes: readonly SourceClass[], family: Family): Generator<Stretch> {
  const edges = classes
    .flatMap(({ pieces }, index) =>
      pieces
        .filter((piece) => piece.family === family)
        .flatMap(({ first, last, protocols }) => [
          { at: first, index, protocols },
          { at: last + 1n, index, protocols: null },
        ]),
    )
    .sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : Number(a.protocols !== null) - Number(b.protocols !== null)));
  const active = new Map<number, Protocols>();
  let from = 0n;
  for (const { at, index, protocols } of edges) {
    if (at > from && active.size > 0) yield { first: from, last: at - 1n, active };
    if (protocols === null) active.delete(index);
    else active.set(index, protocols);
    from = at;
  }
}

/** The traffic of one stretch by the classes that have it; keys are the classes' sorted indexes. */
function splitByClasses(active: ReadonlyMap<number, Protocols>): ReadonlyMap<string, Protocols> {
  let parts: { readonly members: readonly number[]; readonly protocols: Protocols }[] = [];
  for (const [index, protocols] of [...active].sort(([a], [b]) => a - b)) {
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

function usersOf(key: string, classes: readonly SourceClass[]): Set<string | null> {
  return new Set(key.split(' ').flatMap((index) => classes[Number(index)]?.users ?? []));
}
