import { getOrMake } from '../../model/group-by.ts';
import type { Rule } from '../../model/rule.ts';
import type { Intervals } from '../../policy/intervals.ts';
import type { PortSet } from '../../policy/port-set.ts';
import { appendPorts, type OpenRange } from '../../policy/port-set.ts';
import { cutRegion, emptyRegion, joinRegions, type Region, RegionBuilder } from '../../policy/region.ts';
import { getLaneRules, type LaneIndex, lanes } from '../../policy/rule-index.ts';
import { isEmptyTraffic, type TrafficSet } from '../../policy/traffic-set.ts';
import type { Operation } from '../operations.ts';
import { type Cell, eachStretch, type Item, type Stretch } from './cells.ts';
import {
  collectAreas,
  findResidents,
  getArea,
  isUntouched,
  makeViews,
  type Neighbourhood,
  survey,
} from './neighbourhood.ts';
import type { Order } from './order.ts';
import { getVerdictIn, type RegionClass } from './ordering.ts';
import { formatClassKey, listEntries, type Numbering } from './region-classes.ts';

/** Traffic with neither the verdict before nor the one after, from one position in the order to another. */
export interface Exposed {
  readonly direction: 'opened' | 'cut_off';
  readonly from: number;
  readonly to: number;
  readonly traffic: TrafficSet;
}

/** Exactly the traffic that the order exposes: for each component, one entry for each pair of steps between which something is. */
export function findExposed({ steps, suspects }: Order, kept: readonly Rule[]): readonly Exposed[] {
  if (suspects.length === 0) return [];
  const operations = steps.map(({ operation }) => operation);
  const neighbourhood = survey(operations, suspects.flat(), kept);
  return suspects.flatMap((component) => exposedIn(neighbourhood, component, operations));
}

function exposedIn(
  neighbourhood: Neighbourhood,
  component: readonly number[],
  operations: readonly Operation[],
): readonly Exposed[] {
  const own = component.map((position) => operations[position] as Operation);
  const areas = collectAreas(own);
  const runs = new Runs(new Map(component.map((position) => [position, position])));
  const collected = new Map<string, Map<string | null, Region[]>>();
  const put = (run: string, source: string | null, lane: number, region: Region): void => {
    const sources = getOrMake(collected, run, () => new Map<string | null, Region[]>());
    getOrMake(sources, source, () => lanes.map(() => emptyRegion))[lane] = region;
  };
  for (const [lane, view] of makeViews(neighbourhood, own, false).entries()) {
    if (isUntouched(areas, lane)) continue;
    const global = getLaneRules(neighbourhood.index, null, lane);
    const walk = (rules: readonly LaneIndex<Item>[], area: Intervals) =>
      regionsByRun(runs, (visit) => eachStretch(rules, area, view, visit));
    const nobody = walk([global], getArea(areas, null, lane));
    const residents = findResidents(neighbourhood, areas, lane);
    const resident = new Set(residents.flatMap(({ users }) => users));
    for (const [run, region] of nobody) {
      for (const source of [null, ...neighbourhood.users])
        if (!resident.has(source ?? '')) put(run, source, lane, region);
    }
    for (const { users, own: theirs, home } of residents) {
      const inside = walk([theirs, global], home);
      for (const run of new Set([...nobody.keys(), ...inside.keys()])) {
        const outside = cutRegion(nobody.get(run) ?? emptyRegion, theirs.named);
        const region = joinRegions(outside, inside.get(run) ?? emptyRegion);
        for (const user of users) put(run, user, lane, region);
      }
    }
  }
  return [...collected]
    .map(([run, sources]) => ({ ...runs.parse(run), traffic: shareEqual(sources) }))
    .filter(({ traffic }) => traffic.size > 0);
}

function regionsByRun(
  runs: Runs,
  each: (visit: (first: bigint, last: bigint, stretch: Stretch) => void) => void,
): ReadonlyMap<string, Region> {
  const builders = new Map<string, RegionBuilder>();
  const known = new Map<Stretch, ReadonlyMap<string, PortSet>>();
  each((first, last, stretch) => {
    for (const [run, ports] of getOrMake(known, stretch, () => portsByRun(runs, stretch))) {
      getOrMake(builders, run, () => new RegionBuilder()).add(first, last, ports);
    }
  });
  return new Map([...builders].map(([run, builder]) => [run, builder.build()]));
}

function portsByRun(runs: Runs, stretch: Stretch): ReadonlyMap<string, PortSet> {
  const found = new Map<string, OpenRange[]>();
  for (const cell of stretch.cells()) {
    for (const run of runs.of(cell))
      appendPorts(
        getOrMake(found, run, () => []),
        cell.low,
        cell.high,
      );
  }
  return found;
}

/** When the verdict of a cell is wrong, as texts `direction from to`; the same for all cells of a class. */
class Runs {
  readonly #numbering: Numbering;
  readonly #byClass = new Map<string, readonly string[]>();

  constructor(numbering: Numbering) {
    this.#numbering = numbering;
  }

  of(cell: Cell): readonly string[] {
    const entries = listEntries(cell, this.#numbering);
    if (entries.length < 2) return [];
    const region = { weight: 1, kept: cell.kept, before: true, after: true, entries };
    return getOrMake(this.#byClass, formatClassKey(cell, entries), () => this.#compute(region));
  }

  parse(run: string): Pick<Exposed, 'direction' | 'from' | 'to'> {
    const [direction, from, to] = run.split(' ');
    return { direction: direction === 'opened' ? 'opened' : 'cut_off', from: Number(from), to: Number(to) };
  }

  #compute(region: RegionClass): readonly string[] {
    const before = getVerdictIn(region, () => false);
    if (before !== getVerdictIn(region, () => true)) return [];
    const direction = before ? 'cut_off' : 'opened';
    const done = new Set<number>();
    const runs: string[] = [];
    let from: number | null = null;
    const inOrder = [...new Set(region.entries.map(({ operation }) => operation))].sort((a, b) => a - b);
    for (const operation of inOrder) {
      done.add(operation);
      const wrong = getVerdictIn(region, (other) => done.has(other)) !== before;
      if (wrong && from === null) from = operation;
      if (!wrong && from !== null) {
        runs.push(`${direction} ${from} ${operation}`);
        from = null;
      }
    }
    return runs;
  }
}

/** Leaves out sources without traffic. Most sources fare like nobody: they share its list, which is rendered once. */
function shareEqual(sources: ReadonlyMap<string | null, readonly Region[]>): TrafficSet {
  const nobody = sources.get(null) ?? [];
  const traffic = new Map<string | null, readonly Region[]>();
  for (const [source, regions] of sources) {
    if (isEmptyTraffic(regions)) continue;
    traffic.set(source, regions.every((region, lane) => region === nobody[lane]) ? nobody : regions);
  }
  return traffic;
}
