import { emptyRegion, type Region } from './region.ts';
import { lanes } from './rule-index.ts';

/** One region a lane, in the order of `lanes`. */
export type LaneRegions = readonly Region[];

/** Exact traffic by source: nobody's devices (null) and users by UUID. Equal sources may share one object; empty ones be missing. */
export type TrafficSet = ReadonlyMap<string | null, LaneRegions>;

export const noTraffic: LaneRegions = lanes.map(() => emptyRegion);

/** Whether the source has no traffic. */
export function isEmptyTraffic(regions: LaneRegions): boolean {
  return regions.every((region) => region.length === 0);
}
