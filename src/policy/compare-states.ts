import { getOrMake, groupBy } from '../model/group-by.ts';
import type { Protocol } from '../model/state.ts';
import { type Intervals, intersectIntervals, subtractIntervals, toIntervals, unionIntervals } from './intervals.ts';
import { type Layer, lowerProfile, makeFlatProfile, type PortProfile, zipProfiles } from './port-profile.ts';
import { appendPorts, noPorts, type OpenRange, type PortSet, touchesPorts } from './port-set.ts';
import { cutRegion, emptyRegion, isSameRegion, joinRegions, type Region, RegionBuilder } from './region.ts';
import { collectNamedPorts, getLaneRules, type LaneIndex, lanes, type Ruled, type RuleIndex } from './rule-index.ts';
import { sweep } from './sweep.ts';
import { isEmptyTraffic, type LaneRegions, type TrafficSet } from './traffic-set.ts';
import { getRank } from './verdict.ts';

/** A question about several states of the rules at once. The index holds every rule that is in any of them. */
export interface Comparison<T extends Ruled> {
  readonly index: RuleIndex<T>;
  /** How many states, at most 30. */
  readonly states: number;
  /** Bit i is set when the item is in state i. */
  readonly statesOf: (item: T) => number;
  /** Only addresses and ports that one of these items names are compared; usually the items that are not in every state. */
  readonly within: readonly T[];
  /** How many sets of traffic to collect. */
  readonly classes: number;
  /** Which of the sets a packet belongs to (bit c: set c), given for each state the key of the rule that decides there. */
  readonly classify: (keys: readonly number[]) => number;
  /** The rule's key, by default its rank: the lowest that matches decides. It must order rules of different ranks as ranks do. */
  readonly keyOf?: (item: T) => number;
}

/** The key where no rule matches: above all others, and small enough to be stored as a small integer. */
export const noKey = 0x3fff_ffff;

/** Makes a question about ranks one about verdicts: bit i is set when state i accepts. */
export function classifyByVerdict(classify: (accepts: number) => number): (keys: readonly number[]) => number {
  return (keys) => {
    let accepts = 0;
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i];
      if (key === noKey || key === undefined || key % 2 === 0) accepts |= 1 << i;
    }
    return classify(accepts);
  };
}

/**
 * The exact traffic of each class, for nobody and every user with a rule in the index. Users none of whose rules touch the
 * compared addresses share nobody's result; for the others only the addresses of their own rules are walked again, and once for
 * all users with equal rules.
 */
export function compareStates<T extends Ruled>(comparison: Comparison<T>): readonly TrafficSet[] {
  const { index, classes } = comparison;
  const sets = Array.from({ length: classes }, () => new Map<string | null, readonly Region[]>());
  const areas = areasByScope(comparison.within);
  const ways = lanes.map((_, lane) => laneWalk(comparison, lane));
  const shared = ways.map((way, lane) => nobodyRegions(way, areas, lane));
  const nobody = sets.map((_, c) => shared.map((byClass) => byClass[c] ?? emptyRegion));
  for (const [c, set] of sets.entries()) set.set(null, nobody[c] ?? []);
  const known = new Map<string, readonly LaneRegions[]>();
  const keyOfUser = userKeys(comparison);
  for (const user of index.users) {
    const key = reaches(comparison, areas, user) ? keyOfUser(user) : '';
    const found = key === '' ? nobody : getOrMake(known, key, () => ofUser(user));
    for (const [c, set] of sets.entries()) set.set(user, found[c] ?? []);
  }

  function ofUser(user: string): readonly LaneRegions[] {
    const own = ways.map((way, lane) => userRegions(way, areas, { user, lane, nobody: shared[lane] ?? [] }));
    return nobody.map((theirs, c) => {
      const regions = own.map((byClass) => byClass[c] ?? emptyRegion);
      return regions.every((region, lane) => region === theirs[lane]) ? theirs : regions;
    });
  }

  return sets.map((set) => new Map([...set].filter(([, regions]) => !isEmptyTraffic(regions))));
}

/** Whether rules of the user's own touch the compared addresses. */
function reaches<T extends Ruled>({ index }: Comparison<T>, areas: Areas, user: string): boolean {
  return lanes.some((_, lane) => {
    const { named } = getLaneRules(index, user, lane);
    if (named.length === 0) return false;
    return (
      (areas.get(user)?.[lane] ?? []).length > 0 || intersectIntervals(named, areas.get(null)?.[lane] ?? []).length > 0
    );
  });
}

/** How to tell users apart: the key is the same for users with equal rules, in the same states, compared alike. */
function userKeys<T extends Ruled>({ index, statesOf, keyOf, within }: Comparison<T>): (user: string) => string {
  const compared = new Set(within);
  const textOf = (item: T): string => {
    const { destination, action, ports } = item.rule;
    return `${destination.text} ${action} ${ports?.low}-${ports?.high} ${statesOf(item)} ${keyOf?.(item)} ${compared.has(item)}`;
  };
  return (user) => lanes.map((_, lane) => getLaneRules(index, user, lane).items.map(textOf).join()).join('|');
}

/** Addresses by user scope and lane. */
type Areas = ReadonlyMap<string | null, readonly Intervals[]>;

function areasByScope<T extends Ruled>(within: readonly T[]): Areas {
  const scopes = groupBy(within, ({ rule }) => rule.userId);
  return new Map([...scopes].map(([user, items]) => [user, lanes.map((_, lane) => namedIn(items, lane))]));
}

function namedIn<T extends Ruled>(items: readonly T[], lane: number): Intervals {
  const { family, protocol } = lanes[lane] ?? { family: 4, protocol: 'other' };
  const rules = items.map(({ rule }) => rule).filter(({ destination }) => destination.family === family);
  return toIntervals(
    rules.filter(({ ports }) => ports === null || ports.type === protocol).map(({ destination }) => destination),
  );
}

function nobodyRegions<T extends Ruled>(way: LaneWalk<T>, areas: Areas, lane: number): readonly Region[] {
  return walk(way, [getLaneRules(way.comparison.index, null, lane)], areas.get(null)?.[lane] ?? []);
}

interface UserLane {
  readonly user: string;
  readonly lane: number;
  /** Nobody's region for each class. */
  readonly nobody: readonly Region[];
}

function userRegions<T extends Ruled>(way: LaneWalk<T>, areas: Areas, at: UserLane): readonly Region[] {
  const { comparison } = way;
  const { user, lane, nobody } = at;
  const own = getLaneRules(comparison.index, user, lane);
  if (own.items.length === 0) return nobody;
  const { named } = own;
  const global = areas.get(null)?.[lane] ?? [];
  const changed = areas.get(user)?.[lane] ?? [];
  if (changed.length === 0 && intersectIntervals(named, global).length === 0) return nobody;
  const decided = alwaysDecided(comparison, own);
  const ownOnly = walk(way, [own], intersectIntervals(decided, changed));
  const open = subtractIntervals(intersectIntervals(named, unionIntervals(global, changed)), decided);
  const mixed = walk(way, [own, getLaneRules(comparison.index, null, lane)], open);
  return nobody.map((region, c) => {
    const outside = cutRegion(region, named);
    const result = joinRegions(joinRegions(outside, mixed[c] ?? emptyRegion), ownOnly[c] ?? emptyRegion);
    return isSameRegion(result, region) ? region : result;
  });
}

/** Addresses where a rule without ports, in every state, of the user's own stands: no global rule is ever asked there. */
function alwaysDecided<T extends Ruled>({ states, statesOf }: Comparison<T>, own: LaneIndex<T>): Intervals {
  const every = 2 ** states - 1;
  const constant = own.items.filter((item) => item.rule.ports === null && statesOf(item) === every);
  return toIntervals(constant.map(({ rule }) => rule.destination));
}

/** What is known of consecutive addresses. */
interface Place {
  /** The deciding key by port in each state. */
  readonly profiles: readonly PortProfile[];
  /** The ports of each class, once asked. */
  classPorts: readonly PortSet[] | null;
  /** Places further in, by what their rules add: policies say the same of many networks. */
  readonly inner: Map<string, Place>;
}

/** No more places further in are remembered at once: where every network says something else, nothing comes again. */
const mostInner = 256;

function placeOf(profiles: readonly PortProfile[]): Place {
  return { profiles, classPorts: null, inner: new Map() };
}

/** What the walks through one lane share. */
interface LaneWalk<T extends Ruled> {
  readonly comparison: Comparison<T>;
  readonly protocol: Protocol;
  /** Where no rule reaches. */
  readonly empty: Place;
  /** What the rules of one network add, and that as a text. */
  readonly added: (items: readonly T[]) => Added;
}

interface Added {
  readonly layers: readonly (Layer & { readonly states: number })[];
  readonly text: string;
}

function laneWalk<T extends Ruled>(comparison: Comparison<T>, lane: number): LaneWalk<T> {
  const { states, statesOf, keyOf = ({ rule }) => getRank(rule), within } = comparison;
  const protocol = lanes[lane]?.protocol ?? 'other';
  const ports = collectNamedPorts(within, lane);
  const start = makeFlatProfile(noKey);
  const known = new Map<readonly T[], Added>();
  const addedBy = (items: readonly T[]): Added => {
    const layers = items
      .filter(({ rule }) => rule.ports === null || touchesPorts(ports, rule.ports))
      .map((item) => ({ ports: item.rule.ports, states: statesOf(item), key: keyOf(item) }));
    return {
      layers,
      text: layers.map((one) => `${one.ports?.low}-${one.ports?.high} ${one.states} ${one.key}`).join(),
    };
  };
  return {
    comparison,
    protocol,
    empty: placeOf(Array.from({ length: states }, () => start)),
    added: (items) => getOrMake(known, items, () => addedBy(items)),
  };
}

function walk<T extends Ruled>(way: LaneWalk<T>, rules: readonly LaneIndex<T>[], areas: Intervals): readonly Region[] {
  const { comparison, protocol, empty } = way;
  const builders = Array.from({ length: comparison.classes }, () => new RegionBuilder());
  for (const area of areas) {
    sweep<T, Place>(rules, area, {
      empty,
      extend: (outer, items) => extend(way, outer, items),
      visit: (first, last, place) => {
        place.classPorts ??= classPorts(comparison, place.profiles, protocol);
        for (const [c, ports] of place.classPorts.entries()) builders[c]?.add(first, last, ports);
        return true;
      },
    });
  }
  return builders.map((builder) => builder.build());
}

function extend<T extends Ruled>({ added, protocol }: LaneWalk<T>, outer: Place, items: readonly T[]): Place {
  const { layers, text } = added(items);
  if (layers.length === 0) return outer;
  const known = outer.inner.get(text);
  if (known !== undefined) return known;
  const place = placeOf(
    outer.profiles.map((profile, i) => {
      const here = layers.filter(({ states }) => (states >>> i) & 1);
      return lowerProfile(profile, here, protocol);
    }),
  );
  if (outer.inner.size >= mostInner) outer.inner.clear();
  outer.inner.set(text, place);
  return place;
}

function classPorts<T extends Ruled>(
  { classes, classify }: Comparison<T>,
  profiles: readonly PortProfile[],
  protocol: Protocol,
): readonly PortSet[] {
  const sets = Array.from({ length: classes }, (): OpenRange[] => []);
  zipProfiles(profiles, protocol, (low, high, keys) => {
    const member = classify(keys);
    if (member === 0) return;
    for (const [c, ranges] of sets.entries()) {
      if (((member >>> c) & 1) === 0) continue;
      appendPorts(ranges, low, high);
    }
  });
  return sets.map((ranges) => (ranges.length === 0 ? noPorts : ranges));
}
