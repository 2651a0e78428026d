import { emptyRegion, type Region, regionSize, sameRegions } from './region.ts';
import { lanes } from './rule-index.ts';

/** One region a lane, in the order of `lanes`. */
export type LaneRegions = readonly Region[];

/**
 * Exact traffic by source: nobody's devices (null) and users by UUID. Sources with equal traffic may share one object; a
 * source without traffic may be missing.
 */
export type TrafficSet = ReadonlyMap<string | null, LaneRegions>;

export const noTraffic: LaneRegions = lanes.map(() => emptyRegion);

/** Whether the source has no traffic. */
export function isEmptyTraffic(regions: LaneRegions): boolean {
  return regions.every((region) => region.length === 0);
}

export function sameTraffic(a: LaneRegions, b: LaneRegions): boolean {
  return a === b || a.every((region, lane) => sameRegions(region, b[lane] ?? emptyRegion));
}

/** Number of packets: (source, address, protocol, port), one port for protocol `other`. */
export function trafficSize(set: TrafficSet): bigint {
  let sum = 0n;
  for (const regions of set.values()) for (const region of regions) sum += regionSize(region);
  return sum;
}
