import { readNetworks } from '../../model/address.ts';
import { getOrMake, groupBy } from '../../model/group-by.ts';
import type { Interval } from '../../model/intervals.ts';
import { collectNamedUsers } from '../../plan/guard/guard-traffic.ts';
import type { LaterEffect, Plan } from '../../plan/plan.ts';
import { formatPortsKey, intersectPorts, isSamePorts, subtractPorts, toPortSet } from '../../policy/port-set.ts';
import type { Effect, Traffic } from '../../policy/traffic.ts';
import { describeNetworks, measureNetwork, measurePiece, type Piece, type Term } from './networks.ts';
import { type Budget, formatPeople, makeBudget, type People } from './people.ts';
import { formatProtocols, noProtocols, type Protocols, toProtocols } from './protocols.ts';

/** One line of traffic for people: `169.254.0.0/16 but for 169.254.169.254`, `everyone`. */
export interface TrafficLine {
  readonly what: string;
  readonly who: string;
  /** Its networks and the words for their traffic; none where exceptions make it more than a list. */
  readonly networks: readonly string[];
  readonly words: string;
  /** How much it is for how many people, beside other lines. */
  readonly size: number;
}

/** Networks and exceptions that a line which is read in passing names before it counts the rest. */
const brief = 8;
/** People that everyone counts as. */
const everyone = 1000;
/** More than all there is. */
const beyondMeasure = 1e12;

const tooMuch = { what: 'more traffic than fits here', networks: [], words: '', size: Number.MAX_VALUE };

/** The traffic in lines, for most people first, then the widest; with `isFull` and no budget the words, read back, are it exactly. */
export function describeTraffic(traffic: readonly Traffic[], people: People, isFull = false): readonly TrafficLine[] {
  const most = isFull ? Number.POSITIVE_INFINITY : brief;
  const { budget = makeBudget(isFull ? Number.POSITIVE_INFINITY : undefined) } = people;
  return groupBySources(traffic, budget)
    .toSorted((a, b) => Number(b.users.has(null)) - Number(a.users.has(null)) || b.users.size - a.users.size)
    .flatMap(({ users, pieces }) => {
      const who = formatPeople(users, people);
      if (pieces === null) return [{ who, ...tooMuch }];
      // Networks with the same traffic and no exceptions are one line; each with exceptions is its own.
      const keyOf = (term: Term) => (term.exceptions.length === 0 ? formatPortsKey(term.protocols) : term);
      const alike = groupBy(describeNetworks(pieces), keyOf).values();
      const many = users.has(null) ? everyone : users.size;
      return [...alike].map((terms) => ({ who, ...describeTerms(terms, most, many) })).sort((a, b) => b.size - a.size);
    });
}

/** `10.2.0.5 tcp 5432 for bob`: one line as a sentence's end. */
export function formatTrafficLine({ what, who }: Pick<TrafficLine, 'what' | 'who'>): string {
  return what.includes(' but for ') ? `${what}, for ${who}` : `${what} for ${who}`;
}

function describeTerms(terms: readonly Term[], most: number, many: number): Omit<TrafficLine, 'who'> {
  const { protocols = noProtocols, exceptions = [] } = terms[0] ?? {};
  const measured = terms.map(({ network }) => ({ network, size: measureNetwork(network, protocols) }));
  const size = many * measured.reduce((sum, one) => sum + one.size, 0);
  // Of a list that is cut, the widest are shown.
  if (measured.length - most > 1) measured.sort((a, b) => b.size - a.size);
  const networks = measured.map(({ network }) => network);
  const words = formatProtocols(protocols);
  const what = listText(networks, words, most);
  if (exceptions.length === 0) return { what, networks, words, size };
  const wordsOf = (own: Protocols): string => (isSamePorts(own, protocols) ? '' : formatProtocols(own));
  const parts = [...groupBy(exceptions, (exception) => wordsOf(exception.protocols))].map(([own, alike]) => {
    const inside = alike.map(({ network }) => network);
    return listText(inside, own, most);
  });
  return { what: `${what} but for ${parts.join(' and ')}`, networks: [], words, size };
}

/** The first networks and how many are left out, with words for their traffic; one more than allowed is not worth leaving out. */
function listText(networks: readonly string[], words: string, most: number): string {
  const left = networks.length - most;
  const list = left <= 1 ? networks.join(', ') : `${networks.slice(0, most).join(', ')} and ${left} more networks`;
  return words === '' ? list : `${list} ${words}`;
}

/** For whom each later time opens and closes how much that the time before it (the first: now) does not; beyond the budget, all. */
export function findTurns(plan: Plan): readonly Turn[] {
  return getOrMake(turnsOf, plan, () => {
    const { changes, effect, later = [] } = plan;
    const times = [{ effect, users: collectNamedUsers(changes) }, ...later];
    const budget = makeBudget(1_000_000);
    return later.map((entry, index) => {
      const { effect: before, users: known } = times[index] ?? entry;
      // Users who were not known had what nobody had.
      const formerly = (user: string | null): string => `formerly ${user !== null && known.has(user) ? user : null}`;
      const listGaining = (way: keyof Effect): readonly Gain[] => {
        const former = before[way].map((traffic) => ({ ...traffic, user: formerly(traffic.user) }));
        const present = new Set(entry.effect[way].map(({ user }) => user));
        return groupBySources([...entry.effect[way], ...former], budget).flatMap(({ users, pieces }) => {
          const size = pieces?.reduce((sum, piece) => sum + measurePiece(piece), 0) ?? beyondMeasure;
          return [...users]
            .filter((user) => present.has(user) && (pieces === null || !users.has(formerly(user))))
            .map((user) => ({ user, size: user === null ? everyone * size : size }));
        });
      };
      return { entry, opens: listGaining('opens'), closes: listGaining('closes') };
    });
  });
}

type Gain = { readonly user: string | null; readonly size: number };
type Turn = { readonly entry: LaterEffect } & Readonly<Record<keyof Effect, readonly Gain[]>>;
const turnsOf = new WeakMap<Plan, readonly Turn[]>();

/** Traffic that the same sources have: users by UUID, null for everyone without rules of their own. */
interface SourceTraffic {
  readonly users: ReadonlySet<string | null>;
  /** Ascending by family and address; null: more than the budget allows to read. */
  readonly pieces: readonly Piece[] | null;
}

/** The same traffic, cut so that what everyone has stands once, and only what is left is said of single people, if the budget allows it. */
function groupBySources(traffic: readonly Traffic[], budget: Budget): readonly SourceTraffic[] {
  const classes = classesOf(traffic, budget);
  if (classes.length < 2 || classes.at(-1)?.pieces === null) return classes;
  const spans = classes.flatMap(({ pieces }, index) => pieces?.map((piece) => ({ index, ...piece })) ?? []);
  const groups = cutByClasses(spans, budget);
  if (budget.looks < 0) return classes;
  return [...groups].map(([key, pieces]) => {
    const users = key.split(' ').flatMap((index) => [...(classes[Number(index)]?.users ?? [])]);
    return { users: new Set(users), pieces };
  });
}

/** Users with exactly the same traffic are one entry, and the last one all whose traffic the budget does not allow to read. */
function classesOf(traffic: readonly Traffic[], budget: Budget): readonly SourceTraffic[] {
  const texts = new Map<readonly string[], string>();
  const keyOf = ({ protocol, ports, destinations }: Traffic): string =>
    `${protocol} ${formatPortsKey(ports ?? [])} ${getOrMake(texts, destinations, () => destinations.join(' '))}`;
  const byUser = groupBy(traffic, ({ user }) => user);
  const alike = groupBy(byUser, ([, own]) => own.map(keyOf).join('\n'));
  const read = groupBy(alike.values(), ([first]) => {
    for (const { destinations } of first?.[1] ?? []) budget.networks -= destinations.length;
    return budget.networks < 0 ? null : first;
  });
  return [...read].map(([first, members]) => ({
    users: new Set(members.flat().map(([user]) => user)),
    pieces: first === null ? null : piecesOf(first?.[1] ?? []),
  }));
}

/** One source's traffic as ascending stretches of addresses, each with all its protocols. */
function piecesOf(traffic: readonly Traffic[]): readonly Piece[] {
  const spans = traffic.flatMap(({ destinations, protocol, ports }) => {
    const protocols = toProtocols(protocol, ports);
    return readNetworks(destinations).map(({ family, first, last }) => ({ family, first, last, protocols, index: 0 }));
  });
  return cutByClasses(spans, { looks: Number.POSITIVE_INFINITY }).get('0') ?? [];
}

/** Addresses, and what a class of sources, by its index, has there. */
interface Span extends Piece {
  readonly index: number;
}

/** Ascending pieces by the classes that have them: keys are the classes' sorted indexes. Stops where the budget is used up. */
function cutByClasses(spans: readonly Span[], budget: Pick<Budget, 'looks'>): ReadonlyMap<string, readonly Piece[]> {
  const groups = new Map<string, Piece[]>();
  for (const family of [4, 6] as const) {
    for (const { active, first, last } of stretchesOf(spans.filter((span) => span.family === family))) {
      for (const [key, protocols] of splitByClasses(active, budget)) {
        const pieces = getOrMake(groups, key, () => []);
        addPiece(pieces, { family, first, last, protocols });
      }
      if (budget.looks < 0) return groups;
    }
  }
  return groups;
}

/** Adds a piece behind the last; one that goes on with the same traffic makes it longer. */
function addPiece(pieces: Piece[], piece: Piece): void {
  const previous = pieces.at(-1);
  const goesOn =
    previous?.last === piece.first - 1n &&
    previous.family === piece.family &&
    isSamePorts(previous.protocols, piece.protocols);
  if (goesOn) pieces[pieces.length - 1] = { ...previous, last: piece.last };
  else pieces.push(piece);
}

/** Stretches of addresses, ascending, each with the spans that hold all of it (the set is reused). */
function* stretchesOf(spans: readonly Span[]): Generator<Interval & { readonly active: ReadonlySet<Span> }> {
  const edges = spans
    .flatMap((span) => [
      { at: span.first, span, begins: true },
      { at: span.last + 1n, span, begins: false },
    ])
    .sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
  const active = new Set<Span>();
  let from = 0n;
  for (const { at, span, begins } of edges) {
    if (at > from && active.size > 0) yield { first: from, last: at - 1n, active };
    if (begins) active.add(span);
    else active.delete(span);
    from = at;
  }
}

/** The traffic of one stretch by the classes that have it. */
function splitByClasses(active: ReadonlySet<Span>, budget: Pick<Budget, 'looks'>): ReadonlyMap<string, Protocols> {
  let parts: { readonly key: string; readonly protocols: Protocols }[] = [];
  for (const [index, own] of [...groupBy(active, (span) => span.index)].sort(([a], [b]) => a - b)) {
    let left = uniteProtocols(own);
    const next: typeof parts = [];
    for (const { key, protocols } of parts) {
      const both = intersectPorts(protocols, left);
      const only = subtractPorts(protocols, left);
      left = subtractPorts(left, protocols);
      if (both.length > 0) next.push({ key: `${key} ${index}`, protocols: both });
      if (only.length > 0) next.push({ key, protocols: only });
      budget.looks -= both === protocols ? 1 : 10 * (protocols.length + left.length);
    }
    if (left.length > 0) next.push({ key: String(index), protocols: left });
    parts = next;
    budget.looks -= own.length;
  }
  return new Map([...groupBy(parts, ({ key }) => key)].map(([key, same]) => [key, uniteProtocols(same)]));
}

function uniteProtocols(parts: readonly { readonly protocols: Protocols }[]): Protocols {
  const [first] = parts;
  return first !== undefined && parts.length === 1
    ? first.protocols
    : toPortSet(parts.flatMap(({ protocols }) => protocols));
}
