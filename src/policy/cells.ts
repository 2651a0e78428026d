import { areasByScope } from './compare.ts';
import { type Interval, type Intervals, intersectIntervals, unionIntervals } from './intervals.ts';
import { type LaneIndex, laneRules, lanes, type Ruled, type RuleIndex } from './rule-index.ts';
import { sweep } from './sweep.ts';
import { noRank, rankOf } from './verdict.ts';

/**
 * Regions that no order of the changes can tell apart. A *region* is a non-empty set of packets of one source, family and
 * protocol that match exactly the same rules.
 */
export interface Cell<T extends Ruled> {
  /** The changed rules that match, never none. */
  readonly changed: readonly T[];
  /** Rank of the best unchanged rule that matches, or `noRank`. */
  readonly keptRank: number;
  /** How many regions: distinct match sets, counted for each source, family and protocol. */
  readonly weight: number;
}

/**
 * Counts the regions that changed rules match, for nobody and every user with a rule in the index, merged where only the
 * count matters. Costs what lies at the addresses of changed rules; for a user, what lies at her own rules' addresses.
 */
export function cellsOf<T extends Ruled>(index: RuleIndex<T>, changed: readonly T[]): readonly Cell<T>[] {
  const numbers = numberItems(index, changed);
  const areas = areasByScope(changed);
  const merged = new Map<string, { changed: readonly T[]; keptRank: number; weight: number }>();
  const count = ({ signature, changed: items, keptRank }: Region<T>, weight: number): void => {
    if (weight === 0) return;
    const same = merged.get(signature);
    if (same === undefined) merged.set(signature, { changed: items, keptRank, weight });
    else same.weight += weight;
  };
  for (const lane of lanes.keys()) {
    const global = laneRules(index, null, lane);
    const globalArea = areas.get(null)?.[lane] ?? [];
    const shared = regionsIn(numbers, [global], globalArea);
    const missing = new Map<string, number>();
    for (const user of index.users) {
      const own = laneRules(index, user, lane);
      const area = intersectIntervals(own.named, unionIntervals(globalArea, areas.get(user)?.[lane] ?? []));
      if (area.length === 0) continue;
      const covered = coveredBy(shared, own.named);
      const local = regionsIn(numbers, [own, global], area);
      for (const [key, region] of local) {
        if (!shared.has(key)) count(region, 1);
        covered.delete(key);
      }
      for (const key of covered) missing.set(key, (missing.get(key) ?? 0) + 1);
    }
    for (const [key, region] of shared) count(region, 1 + index.users.length - (missing.get(key) ?? 0));
  }
  return [...merged.values()];
}

/** One match set of one source and lane, and where it is realised. */
interface Region<T extends Ruled> {
  readonly changed: readonly T[];
  readonly keptRank: number;
  /** Of `changed` and `keptRank`: what an order can see of the region. */
  readonly signature: string;
  readonly places: Interval[];
}

interface Numbers<T> {
  readonly of: ReadonlyMap<T, number>;
  readonly changed: ReadonlySet<T>;
}

function numberItems<T extends Ruled>(index: RuleIndex<T>, changed: readonly T[]): Numbers<T> {
  const of = new Map<T, number>();
  for (const scope of index.scopes.values()) {
    for (const lane of scope) for (const item of lane.items) if (!of.has(item)) of.set(item, of.size);
  }
  return { of, changed: new Set(changed) };
}

/** The regions that a changed rule matches in the area, by match set. */
function regionsIn<T extends Ruled>(
  numbers: Numbers<T>,
  rules: readonly LaneIndex<T>[],
  area: Intervals,
): Map<string, Region<T>> {
  const found = new Map<string, Region<T>>();
  for (const interval of area) {
    sweep<T, { readonly items: readonly T[]; sets: readonly (readonly T[])[] | null }>(rules, interval, {
      empty: { items: [], sets: [] },
      extend: (outer, items) => ({ items: [...outer.items, ...items], sets: null }),
      visit: (first, last, place) => {
        place.sets ??= matchSets(place.items, numbers.changed);
        for (const set of place.sets) {
          const key = idsOf(set, numbers).join();
          const known = found.get(key);
          if (known === undefined) found.set(key, describe(set, numbers, { first, last }));
          else known.places.push({ first, last });
        }
        return true;
      },
    });
  }
  return found;
}

function describe<T extends Ruled>(set: readonly T[], numbers: Numbers<T>, place: Interval): Region<T> {
  const changed = set.filter((item) => numbers.changed.has(item));
  const ranks = set.filter((item) => !numbers.changed.has(item)).map(({ rule }) => rankOf(rule));
  const keptRank = ranks.reduce((best: number, rank) => Math.min(best, rank), noRank);
  return { changed, keptRank, signature: `${keptRank} ${idsOf(changed, numbers).join()}`, places: [place] };
}

function idsOf<T extends Ruled>(items: readonly T[], numbers: Numbers<T>): readonly number[] {
  return items.map((item) => numbers.of.get(item) ?? 0).sort((a, b) => a - b);
}

/** The distinct sets of items that match together at some port and hold a changed one. All items share an address. */
function matchSets<T extends Ruled>(items: readonly T[], changed: ReadonlySet<T>): readonly (readonly T[])[] {
  if (!items.some((item) => changed.has(item))) return [];
  const everyPort = items.filter(({ rule }) => rule.ports === null);
  const waiting = items.filter(({ rule }) => rule.ports !== null).sort((a, b) => lowOf(a) - lowOf(b));
  const edges = [...new Set([0, ...waiting.flatMap((item) => [lowOf(item), highOf(item) + 1])])].sort((a, b) => a - b);
  const changedEveryPort = everyPort.some((item) => changed.has(item));
  const sets: (readonly T[])[] = [];
  let active: T[] = [];
  let next = 0;
  for (const low of edges) {
    active = active.filter((item) => highOf(item) >= low);
    for (let item = waiting[next]; item !== undefined && lowOf(item) <= low; item = waiting[++next]) active.push(item);
    const empty = low > 65_535;
    if (!empty && (changedEveryPort || active.some((item) => changed.has(item)))) sets.push([...everyPort, ...active]);
  }
  return sets;
}

function lowOf({ rule }: Ruled): number {
  return rule.ports?.low ?? 0;
}

function highOf({ rule }: Ruled): number {
  return rule.ports?.high ?? 65_535;
}

/** Keys of the regions all of whose places lie inside the addresses. */
function coveredBy<T extends Ruled>(regions: ReadonlyMap<string, Region<T>>, addresses: Intervals): Set<string> {
  const keys = new Set<string>();
  for (const [key, { places }] of regions) {
    if (places.every((place) => isInside(place, addresses))) keys.add(key);
  }
  return keys;
}

function isInside({ first, last }: Interval, addresses: Intervals): boolean {
  let low = 0;
  let high = addresses.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((addresses[middle]?.last ?? 0n) < first) low = middle + 1;
    else high = middle;
  }
  const candidate = addresses[low];
  return candidate !== undefined && candidate.first <= first && last <= candidate.last;
}
