import { getOrMake } from '../../model/group-by.ts';
import { estimateRebuildMs, isLossless, type Profile } from '../../model/profile.ts';
import type { Rule } from '../../model/rule.ts';
import { classifyByVerdict, compareStates } from '../../policy/compare-states.ts';
import type { Intervals } from '../../policy/intervals.ts';
import { appendPorts, type OpenRange, type PortSet } from '../../policy/port-set.ts';
import { cutRegion, emptyRegion, joinRegions, type Region, RegionBuilder } from '../../policy/region.ts';
import { renderTraffic } from '../../policy/render-traffic.ts';
import { getLaneRules, indexRules, type LaneIndex, lanes } from '../../policy/rule-index.ts';
import type { Traffic } from '../../policy/traffic.ts';
import { isEmptyTraffic, type TrafficSet } from '../../policy/traffic-set.ts';
import type { Operation } from '../operations.ts';
import type { Exposure } from '../plan.ts';
import { formatStepId } from '../steps.ts';
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

type Listed = Pick<Exposure, 'direction' | 'traffic' | 'expectedMs'> & { readonly from: number; readonly to: number };

export interface ExposureInput {
  readonly order: Order;
  /** The rules that are there before, all the way, and after. */
  readonly kept: readonly Rule[];
  readonly before: readonly Rule[];
  readonly after: readonly Rule[];
  readonly profile: Profile;
}

/** Exactly the traffic that the plan exposes on the way, in the order of the steps that start it. */
export function findExposure(input: ExposureInput): readonly Exposure[] {
  const { order } = input;
  const listed = findExposed(order, input.kept)
    .map(({ direction, from, to, traffic }) => ({ direction, from, to, traffic: renderTraffic(traffic) }))
    .map((item) => ({ ...item, expectedMs: expectedMs(item.from, item.to, input) }));
  return [...unfilteredOf(input), ...listed]
    .sort((a, b) => a.from - b.from || a.to - b.to || (a.direction < b.direction ? 1 : -1))
    .map(({ direction, traffic, from, to, expectedMs: ms }) => ({
      direction,
      traffic,
      fromStep: formatStepId(from),
      toStep: formatStepId(to),
      expectedMs: ms,
    }));
}

/** One rebuild mends what every rule modified in place left behind, so it is listed once: with the first of their deletes. */
function unfilteredOf(input: ExposureInput): readonly Listed[] {
  const { filter } = input.profile;
  const from = input.order.steps.findIndex(({ operation }) => operation.mayRebuild);
  const traffic = from < 0 || filter === null ? [] : droppedThroughout(input);
  if (filter === null || traffic.length === 0) return [];
  return [{ direction: 'opened', from, to: from, traffic, expectedMs: estimateRebuildMs(filter, input.before.length) }];
}

/** How long the filter takes for one rule in a gap (observed: 13 to 26 ms for two, recordings/packet_filter_gap). */
const filterCallMs = 13;

/** How long a write takes where the answer is the enforcement. */
const answerMs = 10;

/** The backlog, at most, behind which a gap is opened; docs/explanation/applying.md. */
const gapBacklogMs = 1000;

/**
 * A gap lasts as long as the filter takes for its steps, one after the other; a backlog of other rules delays its beginning and its
 * end alike. A delete that makes the server rebuild its filter adds the rebuild, and the backlog of the steps before it: whoever
 * applies the plan waits for both, while a filter faster than expected has deleted the rule before.
 */
function expectedMs(from: number, to: number, { order, profile, before }: ExposureInput): number {
  const { filter } = profile;
  const perStep = filter === null ? answerMs : Math.max(filterCallMs, Math.ceil(1000 / filter.rate));
  const between = order.steps.slice(from, to + 1);
  const rebuilds = between.filter(({ operation }) => operation.mayRebuild).length;
  if (filter === null || rebuilds === 0) return between.length * perStep;
  const backlogMs = Math.min(gapBacklogMs, Math.ceil((from * 1000) / filter.rate));
  const waits = isLossless(filter, before.length) ? 1 : rebuilds;
  return between.length * perStep + waits * estimateRebuildMs(filter, before.length) + backlogMs;
}

/** What passes while the filter is rebuilt: all traffic that is dropped before and after. */
function droppedThroughout({ before, after }: ExposureInput): readonly Traffic[] {
  const items = [...before.map((rule) => ({ rule, states: 0b01 })), ...after.map((rule) => ({ rule, states: 0b10 }))];
  const [dropped] = compareStates({
    index: indexRules(items),
    states: 2,
    statesOf: ({ states }) => states,
    within: items,
    classes: 1,
    classify: classifyByVerdict((accepts) => (accepts === 0 ? 1 : 0)),
  });
  return dropped === undefined ? [] : renderTraffic(dropped);
}

/** Traffic with neither the verdict before nor the one after, from one position in the order to another. */
interface Exposed {
  readonly direction: 'opened' | 'cut_off';
  readonly from: number;
  readonly to: number;
  readonly traffic: TrafficSet;
}

/** Exactly the traffic that the order exposes: for each component, one entry for each pair of steps between which something is. */
function findExposed({ steps, suspects }: Order, kept: readonly Rule[]): readonly Exposed[] {
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
