import { getOrMake } from '../../model/group-by.ts';
import type { Rule } from '../../model/rule.ts';
import type { Protocol } from '../../model/state.ts';
import type { Intervals } from '../../policy/intervals.ts';
import { getLastPort } from '../../policy/port-set.ts';
import type { LaneIndex } from '../../policy/rule-index.ts';
import { sweep } from '../../policy/sweep.ts';
import { noRank } from '../../policy/verdict.ts';

/** A rule of before ∪ after, for the walk over regions. Items are numbered in canonical order. */
export interface Item {
  readonly rule: Rule;
  readonly rank: number;
  /** A scattered number of 52 bits: the sum over a set of items tells match sets apart. */
  readonly mark: number;
  /** The operation that adds or removes the rule; -1 for a rule that stays. */
  readonly operation: number;
  readonly added: boolean;
}

/** Ports over which exactly the same rules match, at some addresses. */
export interface Cell {
  readonly low: number;
  readonly high: number;
  /** Tells the set of matching rules from every other one. */
  readonly matchSet: number;
  /** The best rank among the rules that stay. */
  readonly kept: number;
  /** The rules that operations add or remove, by rank; none ranks behind `kept`. */
  readonly changing: readonly Item[];
}

/** The cells of one stretch of addresses, computed once for each set of rules that reach it. */
export class Stretch {
  readonly #items: readonly Item[];
  readonly #protocol: Protocol;
  readonly #inner = new Map<string, Stretch>();
  #cells: readonly Cell[] | null = null;

  constructor(items: readonly Item[], protocol: Protocol) {
    this.#items = items;
    this.#protocol = protocol;
  }

  /** One network further in. */
  within(items: readonly Item[]): Stretch {
    return items.length === 0 ? this : new Stretch(this.#items.concat(items), this.#protocol);
  }

  /** The same, shared by networks whose rules decide alike: their cells differ in nothing but the match sets. */
  withinAlike(items: readonly Item[]): Stretch {
    if (this.#inner.size >= mostInner) this.#inner.clear();
    return getOrMake(this.#inner, items.map(decidingKey).join(), () => this.within(items));
  }

  /** Only cells whose verdict more than one operation bears on, by ascending port. */
  cells(): readonly Cell[] {
    this.#cells ??= cutPorts(this.#items, this.#protocol);
    return this.#cells;
  }
}

/** More are not remembered at once: where every network says something else, nothing comes again. */
const mostInner = 256;

function decidingKey({ rule: { ports }, rank, operation, added }: Item): string {
  return `${ports?.low}-${ports?.high} ${rank} ${operation} ${added}`;
}

/** What a walk looks at: one protocol, and of the rules of one network those that matter. */
export interface View {
  readonly protocol: Protocol;
  readonly within: (items: readonly Item[]) => readonly Item[];
  /** Whether cells are told apart by their match sets, as for counting them, or only by what they decide. */
  readonly byMatchSet: boolean;
}

/** Walks the addresses of the areas, which ascend; `visit` gets consecutive addresses that the same rules reach. */
export function eachStretch(
  rules: readonly LaneIndex<Item>[],
  areas: Intervals,
  { protocol, within, byMatchSet }: View,
  visit: (first: bigint, last: bigint, stretch: Stretch) => void,
): void {
  const empty = new Stretch([], protocol);
  for (const area of areas) {
    sweep<Item, Stretch>(rules, area, {
      empty,
      extend: (outer, items) => (byMatchSet ? outer.within(within(items)) : outer.withinAlike(within(items))),
      visit: (first, last, stretch) => {
        visit(first, last, stretch);
        return true;
      },
    });
  }
}

/** A scattered number below 2^52 for the n-th item (a multiplicative hash, finalised twice). */
export function makeMark(n: number): number {
  return scatter(n * 2 + 1) * 0x100000 + (scatter(n * 2 + 2) >>> 12);
}

function scatter(n: number): number {
  let x = Math.imul(n ^ (n >>> 16), 0x45d9f3b);
  x = Math.imul(x ^ (x >>> 15), 0x2c1b3c6d);
  return (x ^ (x >>> 16)) >>> 0;
}

/** Marks stay below it, so that the sum of two is exact. */
const modulus = 2 ** 52;

/** What matches at one port, kept up to date from one edge to the next. */
class Matching {
  #mark = 0;
  readonly #keptByRank = new Int32Array(noRank);
  readonly #changing = new Set<Item>();

  toggle(item: Item, on: boolean): void {
    this.#mark += on ? item.mark : -item.mark;
    if (this.#mark >= modulus) this.#mark -= modulus;
    else if (this.#mark < 0) this.#mark += modulus;
    if (item.operation >= 0) {
      if (on) this.#changing.add(item);
      else this.#changing.delete(item);
    } else this.#keptByRank[item.rank] = (this.#keptByRank[item.rank] as number) + (on ? 1 : -1);
  }

  cell(low: number, high: number): Cell | null {
    if (this.#changing.size < 2) return null;
    const best = this.#keptByRank.findIndex((count) => count > 0);
    const kept = best < 0 ? noRank : best;
    const changing = [...this.#changing].filter(({ rank }) => rank <= kept);
    if (!areSeveral(changing)) return null;
    changing.sort((a, b) => a.rank - b.rank);
    return { low, high, matchSet: this.#mark, kept, changing };
  }
}

/** Whether items of more than one operation are among them: else their order cannot matter. */
function areSeveral(items: readonly Item[]): boolean {
  let first = -1;
  for (const { operation } of items) {
    if (operation < 0 || operation === first) continue;
    if (first >= 0) return true;
    first = operation;
  }
  return false;
}

function cutPorts(items: readonly Item[], protocol: Protocol): readonly Cell[] {
  if (!areSeveral(items)) return [];
  const matching = new Matching();
  const edges: { readonly port: number; readonly item: Item; readonly on: boolean }[] = [];
  const end = getLastPort(protocol) + 1;
  for (const item of items) {
    const { ports } = item.rule;
    if (ports === null) matching.toggle(item, true);
    else edges.push({ port: ports.low, item, on: true }, { port: ports.high + 1, item, on: false });
  }
  edges.sort((a, b) => a.port - b.port);
  const cells: Cell[] = [];
  let next = 0;
  for (let low = 0; low < end; ) {
    for (let edge = edges[next]; edge !== undefined && edge.port <= low; edge = edges[++next]) {
      matching.toggle(edge.item, edge.on);
    }
    const high = Math.min(edges[next]?.port ?? end, end) - 1;
    const cell = matching.cell(low, high);
    if (cell !== null) cells.push(cell);
    low = high + 1;
  }
  return cells;
}
