import { getOrMake, groupBy } from '../model/group-by.ts';
import { type Intervals, intersectIntervals, toIntervals, unionIntervals } from '../model/intervals.ts';
import type { Rule } from '../model/rule.ts';
import { eachPortRange, extendProfile, type Fold, makeFlatProfile, type PortProfile } from './port-profile.ts';
import {
  appendPorts,
  getLastPort,
  isSamePorts,
  type OpenRange,
  type PortSet,
  toPortSet,
  touchesPorts,
} from './port-set.ts';
import { emptyRegion, joinRegions, type LaneRegions, noTraffic, type Slab } from './region.ts';
import { getLaneRules, type Lane, type LaneIndex, lanes, type Ruled, type RuleIndex } from './rule-index.ts';
import { sweep } from './sweep.ts';

/** A question about all packets at once: into which classes the rules that match each of them put it. */
export interface TrafficQuestion<T extends Ruled, V, C> extends Fold<T, V> {
  readonly index: RuleIndex<T>;
  /** Only addresses and ports that one of these items names are asked about. */
  readonly within: readonly T[];
  /** Equal for items that mean the same, where their networks and ports are equal; the user does not count. */
  readonly describe: (item: T) => string;
  /** None where none of those items matches. */
  readonly classesOf: (value: V) => readonly C[];
}

export interface CollectedTraffic<C> {
  readonly nobody: ReadonlyMap<C, LaneRegions>;
  /**
   * Users with rules there; those who fare alike are one entry, with what to lay over the traffic of nobody in the classes in which they
   * fare otherwise. Their own regions, made for all at once, would take as much memory as nobody's for each.
   */
  readonly others: readonly { readonly users: readonly string[]; readonly changes: ReadonlyMap<C, LaneRegions> }[];
}

/** The exact traffic of each class. Users are walked only at addresses of their own rules, and once for all with equal rules. */
export function collectTraffic<T extends Ruled, V, C>(question: TrafficQuestion<T, V, C>): CollectedTraffic<C> {
  const { index, within, describe } = question;
  const mine = groupBy(within, ({ rule }) => rule.userId);
  const areasOf = (scope: string | null): readonly Intervals[] =>
    lanes.map((lane) => toIntervals(listNamed(mine.get(scope) ?? [], lane).map(({ destination }) => destination)));
  const areas = areasOf(null);
  const prepareWalk = prepareWalks(question);
  const walks = lanes.flatMap((lane, at) => {
    const every = { low: 0, high: getLastPort(lane.protocol) };
    const named = listNamed(within, lane).map(({ ports }) => ports ?? every);
    if (named.length === 0) return [];
    const ports = toPortSet(named.includes(every) ? [every] : named);
    return [{ lane: at, collect: prepareWalk(lane, ports) }];
  });
  const asked = new Set(within);
  const keyOf = (item: T): string => {
    const { destination, ports } = item.rule;
    return `${destination.text} ${ports?.type} ${ports?.low}-${ports?.high} ${describe(item)} ${asked.has(item)}`;
  };
  const nobody = new Map<C, LaneRegions>();
  for (const { lane, collect } of walks) {
    const found = collect([getLaneRules(index, null, lane)], areas[lane] ?? [], 'classes');
    for (const [one, slabs] of found) setLane(nobody, one, lane, joinRegions(emptyRegion, slabs));
  }
  const others = new Map<string, { users: string[]; readonly changes: ReadonlyMap<C, LaneRegions> }>();
  for (const user of index.users) {
    const key = index.scopes.get(user)?.map(keyOf).join() ?? '';
    getOrMake(others, key, () => ({ users: [], changes: ofUser(user) })).users.push(user);
  }

  function ofUser(user: string): ReadonlyMap<C, LaneRegions> {
    const [own, asking] = [index.lanesOf(user), areasOf(user)];
    const homes = own.map(({ named }, lane) =>
      named.length === 0 ? [] : intersectIntervals(named, unionIntervals(areas[lane] ?? [], asking[lane] ?? [])),
    );
    const changes = new Map<C, LaneRegions>();
    for (const { lane, collect } of walks) {
      const rules = [getLaneRules(index, user, lane), getLaneRules(index, null, lane)];
      for (const [one, slabs] of collect(rules, homes[lane] ?? [], 'changes')) setLane(changes, one, lane, slabs);
    }
    return changes;
  }

  function setLane(traffic: Map<C, LaneRegions>, one: C, lane: number, slabs: readonly Slab[]): void {
    traffic.set(one, (traffic.get(one) ?? noTraffic).with(lane, slabs));
  }

  return { nobody, others: [...others.values()].filter(({ changes }) => changes.size > 0) };
}

/** The rules that reach into the lane. An index of them would take much memory. */
function listNamed(items: readonly Ruled[], { family, protocol }: Lane): readonly Rule[] {
  return items
    .map(({ rule }) => rule)
    .filter(({ destination, ports }) => destination.family === family && (ports === null || ports.type === protocol));
}

/** What is known of consecutive addresses. */
interface Place<V, C> {
  readonly profile: PortProfile<V>;
  /** What nobody has there, where a user's rule matches too. */
  readonly nobody: Place<V, C> | null;
  /** The ports of each class, once asked, and of those that has others than for nobody. */
  classes?: ReadonlyMap<C, PortSet>;
  changes?: ReadonlyMap<C, PortSet>;
  /** Places further in, by what their rules add: policies say the same of many networks. */
  readonly inner: Map<string, Place<V, C>>;
}

/** No more places are remembered at once: where every network and user says something else, nothing comes again. */
const mostPlaces = 10_000;

/** Collects where each class has ports, or others than for nobody, in addresses of one lane; the walks through it share what they find. */
function prepareWalks<T extends Ruled, V, C>(question: TrafficQuestion<T, V, C>) {
  const { nothing, describe, classesOf } = question;
  // Lanes share the lists of networks without ports.
  const known = new Map<readonly T[], { readonly items: readonly T[]; readonly text: string }>();
  return ({ protocol }: Lane, ports: PortSet) => {
    let made = 0;
    const empty: Place<V, C> = { profile: makeFlatProfile(nothing), nobody: null, inner: new Map() };
    const selectFrom = (all: readonly T[]) => {
      const items = all.filter(({ rule }) => rule.ports === null || touchesPorts(ports, rule.ports));
      const text = items.map((one) => `${one.rule.ports?.low}-${one.rule.ports?.high} ${describe(one)}`).join();
      return { items, text: all[0]?.rule.userId === null ? text : `own ${text}` };
    };
    const extend = (outer: Place<V, C>, all: readonly T[]): Place<V, C> => {
      const { items, text } = getOrMake(known, all, () => selectFrom(all));
      if (items.length === 0) return outer;
      return getOrMake(outer.inner, text, () => {
        if (++made % mostPlaces === 0) empty.inner.clear();
        const nobody = text.startsWith('own') ? (outer.nobody ?? outer) : outer.nobody && extend(outer.nobody, all);
        return { profile: extendProfile(outer.profile, items, question, protocol), nobody, inner: new Map() };
      });
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
    const at = {
      classes: (place: Place<V, C>) => (place.classes ??= listClasses(place.profile)),
      changes: (place: Place<V, C>) => (place.changes ??= listChanges(place)),
    };
    const listChanges = (place: Place<V, C>): ReadonlyMap<C, PortSet> => {
      if (place.nobody === null) return new Map();
      const [mine, theirs] = [at.classes(place), at.classes(place.nobody)];
      const ports = [...new Set([...theirs.keys(), ...mine.keys()])].map((one) => [one, mine.get(one) ?? []] as const);
      return new Map(ports.filter(([one, own]) => !isSamePorts(own, theirs.get(one) ?? [])));
    };
    return (rules: readonly LaneIndex<T>[], areas: Intervals, what: keyof typeof at) => {
      const slabs = new Map<C, Slab[]>();
      const visit = (first: bigint, last: bigint, place: Place<V, C>): void => {
        for (const [one, own] of at[what](place)) getOrMake(slabs, one, () => []).push({ first, last, ports: own });
      };
      for (const area of areas) sweep(rules, area, { empty, extend, visit });
      return slabs;
    };
  };
}
