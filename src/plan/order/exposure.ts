import { getOrMake } from '../../model/group-by.ts';
import { estimateRebuildMs, isLossless, type Profile } from '../../model/profile.ts';
import type { Rule } from '../../model/rule.ts';
import { compareStates } from '../../policy/compare-states.ts';
import type { LaneRegions } from '../../policy/region.ts';
import { renderTraffic } from '../../policy/render-traffic.ts';
import { indexRules } from '../../policy/rule-index.ts';
import type { Traffic } from '../../policy/traffic.ts';
import { type Exposure, formatStepId, mayRebuild, type Operation } from '../plan.ts';
import type { Order } from './order.ts';
import { type Entry, formatClassKey, getVerdictIn } from './ordering.ts';
import { collectRegions } from './regions.ts';

/** When the verdict of some packets is wrong: positions in the order. */
type Run = Pick<Exposure, 'direction'> & Readonly<Record<'from' | 'to', number>>;

type Exposed = Run & Pick<Exposure, 'expectedMs'> & { readonly listTraffic: () => readonly Traffic[] };

export interface ExposureInput {
  readonly order: Order;
  readonly before: readonly Rule[];
  readonly after: readonly Rule[];
  readonly profile: Profile;
}

/** Exactly the traffic that the plan exposes on the way, in the order of the steps that start it. */
export function findExposure(input: ExposureInput): readonly Exposure[] {
  if (input.order.steps.length === 0) return [];
  return [...unfilteredOf(input), ...findExposed(input)]
    .sort((a, b) => a.from - b.from || a.to - b.to || (a.direction < b.direction ? 1 : -1))
    .map(({ direction, listTraffic, from, to, expectedMs }) => {
      let known: readonly Traffic[] | null = null;
      const [fromStep, toStep] = [formatStepId(from), formatStepId(to)];
      return {
        direction,
        // Listed when it is asked for: there may be 100,000 moments, or 1,000 users in each.
        get traffic() {
          known ??= listTraffic();
          return known;
        },
        ...{ fromStep, toStep, expectedMs },
      };
    });
}

/** One rebuild mends what every rule modified in place left behind, so it is listed once: with the first of their deletes. */
function unfilteredOf({ order, profile: { filter }, before, after }: ExposureInput): readonly Exposed[] {
  const from = order.steps.findIndex(mayRebuild);
  if (from < 0 || filter === null) return [];
  const items = [...before.map((rule) => ({ rule, states: 0b01 })), ...after.map((rule) => ({ rule, states: 0b10 }))];
  // While the filter is rebuilt, all traffic that is dropped before and after passes.
  const traffic = compareStates({
    index: indexRules(items),
    statesOf: ({ states }) => states,
    within: items,
    classify: (accepts) => (accepts === 0 ? 'dropped' : null),
  })('dropped');
  if (traffic.length === 0) return [];
  const expectedMs = estimateRebuildMs(filter, before.length);
  return [{ direction: 'opened', from, to: from, listTraffic: () => traffic, expectedMs }];
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
function prepareEstimate({ order: { steps }, profile: { filter }, before }: ExposureInput) {
  const perStep = filter === null ? answerMs : Math.max(filterCallMs, Math.ceil(1000 / filter.rate));
  const rebuildsBefore = [0];
  for (const step of steps) rebuildsBefore.push((rebuildsBefore.at(-1) ?? 0) + Number(mayRebuild(step)));
  return ({ from, to }: Run): number => {
    const ms = (to + 1 - from) * perStep;
    const rebuilds = (rebuildsBefore[to + 1] ?? 0) - (rebuildsBefore[from] ?? 0);
    if (filter === null || rebuilds === 0) return ms;
    const backlogMs = Math.min(gapBacklogMs, Math.ceil((from * 1000) / filter.rate));
    const waits = isLossless(filter, before.length) ? 1 : rebuilds;
    return ms + waits * estimateRebuildMs(filter, before.length) + backlogMs;
  };
}

/** Exactly the traffic that the order exposes: one entry for each pair of steps between which something is. Components share none. */
function findExposed(input: ExposureInput): readonly Exposed[] {
  const { order, before, after } = input;
  const { positions, kept } = order.suspects;
  const users = new Set(before.concat(after).flatMap(({ userId }) => userId ?? []));
  const runs = new Map<string, Run>();
  const byClass = new Map<string, readonly Run[]>();
  const listRuns = (rank: number, entries: readonly Entry[]): readonly Run[] =>
    findRuns(rank, entries).map(({ direction, from, to }) => {
      const run = { direction, from: positions[from] as number, to: positions[to] as number };
      return getOrMake(runs, `${direction} ${from} ${to}`, () => run);
    });
  const own = positions.map((position) => order.steps[position] as Operation);
  const collected = collectRegions({ operations: own, kept: [...kept] }, false, ({ kept: rank, entries }) =>
    getOrMake(byClass, formatClassKey(rank, entries), () => listRuns(rank, entries)),
  );
  const trafficOf = renderTraffic(collected, [...users].sort());
  const estimate = prepareEstimate(input);
  const maps = [collected.nobody, ...collected.others.map(({ changes }) => changes)];
  const isSome = ([, regions]: readonly [Run, LaneRegions]): boolean =>
    regions.some((slabs) => slabs.some(({ ports }) => ports.length > 0));
  const told = new Set(maps.flatMap((map) => [...map].filter(isSome).map(([run]) => run)));
  return [...runs.values()]
    .filter((run) => told.has(run))
    .map((run) => ({ ...run, listTraffic: () => trafficOf(run), expectedMs: estimate(run) }));
}

/** When the verdict of a region is wrong, as operations are done in their order. */
function findRuns(kept: number, entries: readonly Entry[]): readonly Run[] {
  const region = { kept, entries };
  const before = getVerdictIn(region, () => false);
  if (before !== getVerdictIn(region, () => true)) return [];
  const direction = before ? 'cut_off' : 'opened';
  const done = new Set<number>();
  const runs: Run[] = [];
  let from: number | null = null;
  const inOrder = [...new Set(entries.map(({ operation }) => operation))].sort((a, b) => a - b);
  for (const operation of inOrder) {
    done.add(operation);
    const wrong = getVerdictIn(region, (other) => done.has(other)) !== before;
    if (wrong && from === null) from = operation;
    if (!wrong && from !== null) {
      runs.push({ direction, from, to: operation });
      from = null;
    }
  }
  return runs;
}
