import { getOrMake, groupBy } from '../model/group-by.ts';
import { type Intervals, intersectIntervals, toIntervals, unionIntervals } from '../model/intervals.ts';
import type { Rule } from '../model/rule.ts';
import type { Protocol } from '../model/state.ts';
import { eachPortRange, extendProfile, type Fold, makeFlatProfile, type PortProfile } from './port-profile.ts';
import { appendPorts, getLastPort, type OpenRange, type PortSet, toPortSet, touchesPorts } from './port-set.ts';
import {
  cutRegion,
  emptyRegion,
  isSameRegion,
  joinRegions,
  type LaneRegions,
  noTraffic,
  type Region,
  RegionBuilder,
} from './region.ts';
import { getLaneRules, type Lane, type LaneIndex, lanes, type Ruled, type RuleIndex } from './rule-index.ts';
import { sweep } from './sweep.ts';

/** A question about all packets at once: into which classes the rules that match each of them put it. */
export interface TrafficQuestion<T extends Ruled, V, C> extends Fold<T, V> {
  readonly index: RuleIndex<T>;
  /** Only addresses and ports that one of these items names are asked about. */
  readonly within: readonly T[];
  /** Equal for items that mean the same, where their networks and ports are equal; the user does not count. */
  readonly describe: (item: T) => string;
  readonly classesOf: (value: V) => readonly C[];
}

/** The traffic of each class that has some, from one source. */
export type ClassTraffic<C> = ReadonlyMap<C, LaneRegions>;

export interface CollectedTraffic<C> {
  readonly nobody: ClassTraffic<C>;
  /** Users who fare otherwise than nobody; those who fare alike are one entry. */
  readonly others: readonly { readonly users: readonly string[]; readonly traffic: ClassTraffic<C> }[];
}

/** The exact traffic of each class. Users are walked only at addresses of their own rules, and once for all with equal rules. */
export function collectTraffic<T extends Ruled, V, C>(question: TrafficQuestion<T, V, C>): CollectedTraffic<C> {
  const { index, within, describe } = question;
  const mine = groupBy(within, ({ rule }) => rule.userId);
  const areasOf = (scope: string | null): readonly Intervals[] =>
    lanes.map((lane) => toIntervals(listNamed(mine.get(scope) ?? [], lane).map(({ destination }) => destination)));
  const areas = areasOf(null);
  const walks = lanes.map((lane) => {
    const every = { low: 0, high: getLastPort(lane.protocol) };
    const named = listNamed(within, lane).map(({ ports }) => ports ?? every);
    return prepareWalk(question, lane.protocol, toPortSet(named.includes(every) ? [every] : named));
  });
  const asked = new Set(within);
  const keyOf = (item: T): string => {
    const { destination, ports } = item.rule;
    return `${destination.text} ${ports?.type} ${ports?.low}-${ports?.high} ${describe(item)} ${asked.has(item)}`;
  };
  const nobody = new Map<C, LaneRegions>();
  for (const [lane, collect] of walks.entries()) {
    const found = collect([getLaneRules(index, null, lane)], areas[lane] ?? []);
    for (const [one, region] of found) setLane(nobody, one, lane, region);
  }
  const others = new Map<string, { users: string[]; readonly traffic: ClassTraffic<C> | null }>();
  for (const user of index.users) {
    const key = index.scopes.get(user)?.map(keyOf).join() ?? '';
    getOrMake(others, key, () => ({ users: [], traffic: ofUser(user) })).users.push(user);
  }

  /** Null where no rule of the user touches the addresses asked about. */
  function ofUser(user: string): ClassTraffic<C> | null {
    const [own, asking] = [index.lanesOf(user), areasOf(user)];
    const homes = own.map(({ named }, lane) =>
      named.length === 0 ? [] : intersectIntervals(named, unionIntervals(areas[lane] ?? [], asking[lane] ?? [])),
    );
    if (homes.every(({ length }) => length === 0)) return null;
    const traffic = new Map(nobody);
    for (const [lane, collect] of walks.entries()) {
      const home = homes[lane] ?? [];
      if (home.length === 0) continue;
      const inside = collect([getLaneRules(index, user, lane), getLaneRules(index, null, lane)], home);
      for (const one of new Set([...nobody.keys(), ...inside.keys()])) {
        const theirs = nobody.get(one)?.[lane] ?? emptyRegion;
        const region = joinRegions(cutRegion(theirs, home), inside.get(one) ?? emptyRegion);
        if (!isSameRegion(region, theirs)) setLane(traffic, one, lane, region);
      }
    }
    return traffic;
  }

  const told = [...others.values()].flatMap(({ users, traffic }) => (traffic === null ? [] : [{ users, traffic }]));
  return { nobody, others: told };
}

/** The rules that reach into the lane. An index of them would take much memory. */
function listNamed(items: readonly Ruled[], { family, protocol }: Lane): readonly Rule[] {
  return items
    .map(({ rule }) => rule)
    .filter(({ destination, ports }) => destination.family === family && (ports === null || ports.type === protocol));
}

function setLane<C>(traffic: Map<C, LaneRegions>, one: C, lane: number, region: Region): void {
  traffic.set(one, (traffic.get(one) ?? noTraffic).with(lane, region));
}

/** What is known of consecutive addresses. */
interface Place<V, C> {
  readonly profile: PortProfile<V>;
  /** The ports of each class, once asked. */
  classes: ReadonlyMap<C, PortSet> | null;
  /** Places further in, by what their rules add: policies say the same of many networks. */
  readonly inner: Map<string, Place<V, C>>;
}

/** No more places further in are remembered at once: where every network says something else, nothing comes again. */
const mostInner = 256;

function placeOf<V, C>(profile: PortProfile<V>): Place<V, C> {
  return { profile, classes: null, inner: new Map() };
}

/** Collects the regions of each class in addresses of one lane; the walks through it share what they find. */
function prepareWalk<T extends Ruled, V, C>(question: TrafficQuestion<T, V, C>, protocol: Protocol, ports: PortSet) {
  const { nothing, describe, classesOf } = question;
  const empty = placeOf<V, C>(makeFlatProfile(nothing));
  const known = new Map<readonly T[], { readonly items: readonly T[]; readonly text: string }>();
  const selectFrom = (all: readonly T[]) => {
    const items = all.filter(({ rule }) => rule.ports === null || touchesPorts(ports, rule.ports));
    return { items, text: items.map((one) => `${formatPorts(one)} ${describe(one)}`).join() };
  };
  const extend = (outer: Place<V, C>, all: readonly T[]): Place<V, C> => {
    const { items, text } = getOrMake(known, all, () => selectFrom(all));
    if (items.length === 0) return outer;
    if (outer.inner.size >= mostInner) outer.inner.clear();
    return getOrMake(outer.inner, text, () => placeOf(extendProfile(outer.profile, items, question, protocol)));
  };
  const listClasses = (profile: PortProfile<V>): ReadonlyMap<C, PortSet> => {
    const classes = new Map<C, OpenRange[]>();
    eachPortRange(profile, protocol, (low, high, value) => {
      for (const one of classesOf(value)) {
        const ranges = getOrMake(classes, one, () => []);
        appendPorts(ranges, low, high);
      }
    });
    return classes;
  };
  return (rules: readonly LaneIndex<T>[], areas: Intervals): ReadonlyMap<C, Region> => {
    const builders = new Map<C, RegionBuilder>();
    const visit = (first: bigint, last: bigint, place: Place<V, C>): void => {
      place.classes ??= listClasses(place.profile);
      for (const [one, own] of place.classes) {
        getOrMake(builders, one, () => new RegionBuilder()).add({ first, last, ports: own });
      }
    };
    for (const area of areas) sweep(rules, area, { empty, extend, visit });
    return new Map([...builders].map(([one, builder]) => [one, builder.build()]));
  };
}

function formatPorts({ rule: { ports } }: Ruled): string {
  return ports === null ? '' : `${ports.low}-${ports.high}`;
}
