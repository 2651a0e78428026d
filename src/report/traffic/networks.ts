import { coverRange, type Family, getWidth, Network } from '../../model/address.ts';
import { getOrMake } from '../../model/group-by.ts';
import type { Interval } from '../../model/intervals.ts';
import { countPorts, formatPortsKey, intersectPorts, subtractPorts } from '../../policy/port-set.ts';
import { everything, noProtocols, type Protocols } from './protocols.ts';

/** Addresses of one family with the same traffic. */
export interface Piece extends Interval {
  readonly family: Family;
  readonly protocols: Protocols;
}

/** A network and its traffic, without that of the exceptions, which all lie inside it. */
export interface Term {
  readonly network: string;
  readonly protocols: Protocols;
  readonly exceptions: readonly { readonly network: string; readonly protocols: Protocols }[];
}

/** How much traffic of a network is, beside others; all of IPv6 is as much as all of IPv4. */
export function measureNetwork(network: string, protocols: Protocols = everything): number {
  const width = getWidth(network.includes(':') ? 6 : 4);
  return countPorts(protocols) * 2 ** ((-32 * Number(network.split('/')[1] ?? width)) / width);
}

export function measurePiece({ family, first, last, protocols }: Piece): number {
  return countPorts(protocols) * (Number(last - first + 1n) / 2 ** getWidth(family)) ** (32 / getWidth(family));
}

/** More pieces than this are listed network by network: finding the fewest words would cost more than it saves a reader. */
const mostCompressed = 4000;

/**
 * Networks with exceptions that together are exactly the pieces (ascending and disjoint within a family). The networks are
 * the fewest prefixes of which the longest decides, as in a routing table (Draves et al., "Constructing optimal IP routing
 * tables", 1999); a prefix that takes away from the one around it becomes an exception, one that adds becomes a term.
 */
export function describeNetworks(pieces: readonly Piece[]): readonly Term[] {
  return ([4, 6] as const).flatMap((family) => {
    const own = pieces.filter((piece) => piece.family === family);
    if (own.length === 0) return [];
    if (own.length <= mostCompressed) return termsOf(choosePrefixes(family, own));
    const prefixesOf = ({ first, last, protocols }: Piece): readonly Prefix[] =>
      coverRange(family, first, last).map((network) => ({ ...network, protocols }));
    return termsOf(own.flatMap(prefixesOf));
  });
}

/** A prefix and the traffic of what no longer prefix inside it decides; parents come before what is inside them. */
interface Prefix extends Interval {
  readonly text: string;
  readonly protocols: Protocols;
}

interface OpenTerm extends Term {
  readonly exceptions: { readonly network: string; readonly protocols: Protocols }[];
}

function termsOf(prefixes: readonly Prefix[]): readonly Term[] {
  const all: OpenTerm[] = [];
  /** Prefixes around the present one, and the terms there, with what of each is still in force. */
  const stack: { prefix: Prefix; terms: readonly { readonly open: OpenTerm; readonly here: Protocols }[] }[] = [];
  for (const prefix of prefixes) {
    while (stack.length > 0 && (stack.at(-1)?.prefix.last ?? 0n) < prefix.first) stack.pop();
    const around = stack.at(-1);
    const before = around?.prefix.protocols ?? noProtocols;
    const removed = subtractPorts(before, prefix.protocols);
    const added = subtractPorts(prefix.protocols, before);
    const terms = (around?.terms ?? []).map(({ open, here }) => {
      const cut = intersectPorts(here, removed);
      if (cut.length === 0) return { open, here };
      open.exceptions.push({ network: prefix.text, protocols: cut });
      return { open, here: subtractPorts(here, cut) };
    });
    if (added.length > 0) {
      const open: OpenTerm = { network: prefix.text, protocols: added, exceptions: [] };
      all.push(open);
      terms.push({ open, here: added });
    }
    stack.push({ prefix, terms });
  }
  return all;
}

/** One node of the tree of prefixes: which traffics may stand here at the least cost, and the halves (none: a leaf). */
interface Node {
  readonly candidates: readonly Protocols[];
  readonly halves: readonly [Node, Node] | null;
}

function choosePrefixes(family: Family, pieces: readonly Piece[]): readonly Prefix[] {
  const bits = getWidth(family);
  const interned = new Map([[formatPortsKey(noProtocols), noProtocols]]);
  const own = pieces.map(({ protocols, ...piece }) => {
    return { protocols: getOrMake(interned, formatPortsKey(protocols), () => protocols), ...piece };
  });
  const treeOf = (first: bigint, prefix: number, around: readonly Piece[]): Node => {
    const last = first + (1n << BigInt(bits - prefix)) - 1n;
    const inside = around.filter((piece) => piece.first <= last && first <= piece.last);
    const [piece] = inside;
    if (piece === undefined) return { candidates: [noProtocols], halves: null };
    if (piece.first <= first && last <= piece.last) return { candidates: [piece.protocols], halves: null };
    const left = treeOf(first, prefix + 1, inside);
    const right = treeOf(first + (1n << BigInt(bits - prefix - 1)), prefix + 1, inside);
    const both = left.candidates.filter((candidate) => right.candidates.includes(candidate));
    const candidates = both.length > 0 ? both : [...new Set([...left.candidates, ...right.candidates])];
    return { candidates, halves: [left, right] };
  };
  const out: Prefix[] = [];
  const visit = (node: Node, first: bigint, prefix: number, inherited: Protocols): void => {
    const largest = node.candidates.reduce((best, one) => (countPorts(one) > countPorts(best) ? one : best));
    const chosen = node.candidates.includes(inherited) ? inherited : largest;
    if (chosen !== inherited) out.push({ ...new Network(family, first, prefix), protocols: chosen });
    if (node.halves === null) return;
    visit(node.halves[0], first, prefix + 1, chosen);
    visit(node.halves[1], first + (1n << BigInt(bits - prefix - 1)), prefix + 1, chosen);
  };
  visit(treeOf(0n, 0, own), 0n, 0, noProtocols);
  return out;
}
