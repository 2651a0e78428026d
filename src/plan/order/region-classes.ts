import { getOrMake } from '../../model/group-by.ts';
import { intersectIntervals } from '../../policy/intervals.ts';
import { getLaneRules } from '../../policy/rule-index.ts';
import { type Cell, eachStretch, type View } from './cells.ts';
import {
  type Areas,
  findResidents,
  getArea,
  isUntouched,
  type Neighbourhood,
  type Residents,
} from './neighbourhood.ts';
import { type Entry, getVerdictIn, type RegionClass } from './ordering.ts';

/** The numbers of a component's operations by their positions in the plan's; no others are in it. */
export type Numbering = ReadonlyMap<number, number>;

/** Where a component's regions are: the addresses that its operations name, and what to look at there in each lane. */
interface Looked {
  readonly areas: Areas;
  readonly views: readonly View[];
}

/**
 * Counts the regions of a component: for each source, family and protocol, every distinct set of rules that some packet
 * matches, when at least two operations bear on its verdict; merged by what decides it. Users without rules of their own
 * in the component's areas have nobody's regions, and count as many times.
 */
export function classifyRegions(
  neighbourhood: Neighbourhood,
  { areas, views }: Looked,
  numbering: Numbering,
): readonly RegionClass[] {
  const classes = new Classes(numbering);
  for (const [lane, view] of views.entries()) {
    if (isUntouched(areas, lane)) continue;
    const global = getLaneRules(neighbourhood.index, null, lane);
    const residents = findResidents(neighbourhood, areas, lane);
    const nobody = new Map<number, { readonly cell: Cell; size: bigint }>();
    eachStretch([global], getArea(areas, null, lane), view, (first, last, stretch) => {
      for (const cell of stretch.cells()) {
        const size = (last - first + 1n) * BigInt(cell.high - cell.low + 1);
        getOrMake(nobody, cell.matchSet, () => ({ cell, size: 0n })).size += size;
      }
    });
    for (const { cell } of nobody.values()) classes.add(cell, 1 + neighbourhood.users.length);
    for (const resident of residents) correct(resident, lane);

    /** Residents have nobody's regions, without those that lie wholly at home, and with those found there. */
    function correct({ users, own, home }: Residents, at: number): void {
      const inside = new Map<number, bigint>();
      eachStretch([global], intersectIntervals(home, getArea(areas, null, at)), view, (first, last, stretch) => {
        for (const { matchSet, low, high } of stretch.cells()) {
          inside.set(matchSet, (inside.get(matchSet) ?? 0n) + (last - first + 1n) * BigInt(high - low + 1));
        }
      });
      const found = new Map<number, Cell>();
      eachStretch([own, global], home, view, (_, __, stretch) => {
        for (const cell of stretch.cells()) found.set(cell.matchSet, cell);
      });
      for (const [matchSet, size] of inside) {
        const known = nobody.get(matchSet);
        if (known !== undefined && known.size === size && !found.has(matchSet)) classes.add(known.cell, -users.length);
      }
      for (const [matchSet, cell] of found) if (!nobody.has(matchSet)) classes.add(cell, users.length);
    }
  }
  return classes.list();
}

class Classes {
  readonly #numbering: Numbering;
  readonly #byKey = new Map<string, { weight: number; readonly kept: number; readonly entries: readonly Entry[] }>();

  constructor(numbering: Numbering) {
    this.#numbering = numbering;
  }

  add(cell: Cell, weight: number): void {
    const entries = listEntries(cell, this.#numbering);
    if (entries.length < 2 || entries.every(({ operation }) => operation === entries[0]?.operation)) return;
    const { kept } = cell;
    getOrMake(this.#byKey, formatClassKey(cell, entries), () => ({ weight: 0, kept, entries })).weight += weight;
  }

  list(): readonly RegionClass[] {
    return [...this.#byKey]
      .filter(([, { weight }]) => weight > 0)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([, found]) => {
        const region = { ...found, before: true, after: true };
        return { ...found, before: getVerdictIn(region, () => false), after: getVerdictIn(region, () => true) };
      });
  }
}

/** The changing rules of a cell as entries of the component's ordering; empty for a cell of other components. */
export function listEntries(cell: Cell, numberOf: Numbering): readonly Entry[] {
  const entries: Entry[] = [];
  for (const { operation, rank, added } of cell.changing) {
    const number = numberOf.get(operation);
    if (number !== undefined) entries.push({ operation: number, rank, added });
  }
  return entries.sort((a, b) => a.rank - b.rank || a.operation - b.operation || Number(a.added) - Number(b.added));
}

/** Equal for cells whose verdict is the same function of what is done. */
export function formatClassKey({ kept }: Pick<Cell, 'kept'>, entries: readonly Entry[]): string {
  return `${kept} ${entries.map(({ operation, rank, added }) => `${rank}${added ? '+' : '-'}${operation}`).join(' ')}`;
}
