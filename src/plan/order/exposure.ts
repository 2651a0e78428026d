import { estimateRebuildMs, losesNothing, type Profile } from '../../model/profile.ts';
import type { Rule } from '../../model/rule.ts';
import { classifyByVerdict, compareStates } from '../../policy/compare-states.ts';
import { renderTraffic } from '../../policy/render-traffic.ts';
import { indexRules } from '../../policy/rule-index.ts';
import type { Traffic } from '../../policy/traffic.ts';
import type { Exposure } from '../plan.ts';
import { formatStepId } from '../steps.ts';
import { findExposed } from './exposed.ts';
import type { Order } from './order.ts';

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

/** The backlog, at most, behind which a gap is opened; docs/applying.md. */
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
  const waits = losesNothing(filter, before.length) ? 1 : rebuilds;
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
