import type { Profile } from '../../model/profile.ts';
import type { Rule } from '../../model/rule.ts';
import type { Operation } from '../operations.ts';
import { groupsOf, type UnionFind, unionFind } from '../union-find.ts';
import { baselineOrder } from './baseline.ts';
import { dependencies } from './dependencies.ts';
import { type Exposed, exposedBy } from './exposed.ts';
import { areasOf, type Landscape, survey } from './landscape.ts';
import type { Cost, GapGroup, Ordering } from './ordering.ts';
import { regionClasses } from './region-classes.ts';
import { findOrder, searchEffort } from './search.ts';
import { relate } from './sharing.ts';
import { costOf } from './walk.ts';

/** One operation in the order, with the positions of those that must be done first and the gap it belongs to. */
export interface Ordered {
  readonly operation: Operation;
  readonly after: readonly number[];
  readonly gap: number | null;
}

/** Every operation in its place, and the traffic that the order exposes, with positions for `from` and `to`. */
export interface Order {
  readonly steps: readonly Ordered[];
  readonly exposed: readonly Exposed[];
}

export interface OrderInput {
  readonly operations: readonly Operation[];
  /** The rules that are there before, all the way, and after. */
  readonly kept: readonly Rule[];
  readonly profile: Profile;
}

/**
 * Puts the operations in an order that the server accepts at every step and that exposes as little traffic as possible.
 *
 * Operations that share packets form components, whose costs add. Where nothing collides and nothing is updated in place, rank
 * order exposes nothing, and no region is ever looked at. The other components are each ordered by cost, and listed after
 * the other creates and before the other deletes; those that may make the server rebuild its filter come last of all.
 */
export function orderOperations({ operations, kept, profile }: OrderInput): Order {
  const { sharing, blockers } = relate(operations, profile.refusesCollisions);
  const sets = unionFind(operations.length);
  for (let i = 0; i < sharing.length; i += 2) sets.union(sharing[i] as number, sharing[i + 1] as number);
  const components = groupsOf(sets, operations.length);
  const groups = gapGroups(operations, blockers);
  const { needs, late } = rebuildsLast(operations, components, blockers, groups);
  const baseline = baselineOrder(operations, needs);
  const place = new Int32Array(operations.length);
  for (const [position, operation] of baseline.entries()) place[operation] = position;
  const close = components
    .filter((component) => needsSearch(component, operations, needs))
    .map((component) => component.toSorted((a, b) => (place[a] as number) - (place[b] as number)))
    .sort((a, b) => (place[a[0] as number] as number) - (place[b[0] as number] as number));
  const landscape = close.length === 0 ? null : survey(operations, close.flat(), kept);
  const found = close.map((component) =>
    orderComponent({ operations, component, needs, groups, landscape, effort: searchEffort / close.length }),
  );
  const order = listed(operations, { baseline, found: found.map(({ order: own }) => own) }, late);
  const componentOf = Int32Array.from({ length: operations.length }, (_, operation) => sets.find(operation));
  const after = dependencies({ operations, order, sharing, needs, componentOf });
  const gaps = numberGaps(order, groups);
  const positions = new Map(order.map((operation, position) => [operation, position]));
  return {
    steps: order.map((operation, position) => ({
      operation: operations[operation] as Operation,
      after: after[position] ?? [],
      gap: gaps.get(operation) ?? null,
    })),
    exposed: found.flatMap(({ exposed }) =>
      exposed.map((item) => ({
        ...item,
        from: positions.get(item.from) as number,
        to: positions.get(item.to) as number,
      })),
    ),
  };
}

/** Whether rank order may not be the best, or not even valid. */
function needsSearch(
  component: readonly number[],
  operations: readonly Operation[],
  needs: readonly (readonly number[])[],
): boolean {
  if (component.length < 2) return false;
  return component.some((operation) => (needs[operation] ?? []).length > 0 || operations[operation]?.type === 'update');
}

/**
 * What must come before what: a create after the deletes that it collides with; and before a delete that may make the server
 * rebuild its filter, and before the rest of its gap, everything else of its component. Returns the operations so delayed too.
 */
function rebuildsLast(
  operations: readonly Operation[],
  components: readonly (readonly number[])[],
  blockers: readonly (readonly number[])[],
  { groupOf }: Gaps,
): { readonly needs: readonly (readonly number[])[]; readonly late: ReadonlySet<number> } {
  const needs = [...blockers];
  const late = new Set<number>();
  for (const component of components) {
    const rebuilds = component.filter((operation) => operations[operation]?.mayRebuild === true);
    if (rebuilds.length === 0) continue;
    const groups = new Set(rebuilds.map((rebuild) => groupOf[rebuild] as number));
    groups.delete(-1);
    const isLate = (operation: number): boolean =>
      operations[operation]?.mayRebuild === true || groups.has(groupOf[operation] as number);
    const early = component.filter((operation) => !isLate(operation));
    for (const operation of component.filter(isLate)) {
      late.add(operation);
      needs[operation] = [...early, ...(blockers[operation] ?? [])];
    }
  }
  return { needs, late };
}

interface Gaps {
  /** By operation: its group, or -1. */
  readonly groupOf: Int32Array;
  readonly groups: readonly GapGroup[];
  /** Whether the group holds a delete: a gap that must be closed once it is open. */
  readonly isGap: readonly boolean[];
}

/** Operations connected by collisions. */
function gapGroups(operations: readonly Operation[], blockers: readonly (readonly number[])[]): Gaps {
  const sets: UnionFind = unionFind(operations.length);
  const opens = new Uint8Array(operations.length);
  for (const [operation, list] of blockers.entries()) {
    for (const blocker of list) {
      sets.union(operation, blocker);
      opens[blocker] = 1;
    }
  }
  const groupOf = new Int32Array(operations.length).fill(-1);
  const members = groupsOf(sets, operations.length).filter(({ length }) => length > 1);
  for (const [group, list] of members.entries()) for (const operation of list) groupOf[operation] = group;
  return {
    groupOf,
    groups: members.map((list) => ({
      openers: list.filter((operation) => opens[operation] === 1),
      closers: list.filter((operation) => (blockers[operation] ?? []).length > 0),
      startsOpen: false,
      staysOpen: false,
    })),
    isGap: members.map((list) => list.some((operation) => operations[operation]?.type === 'delete')),
  };
}

interface ComponentInput {
  readonly operations: readonly Operation[];
  /** In canonical order. */
  readonly component: readonly number[];
  readonly needs: readonly (readonly number[])[];
  readonly groups: Gaps;
  readonly landscape: Landscape | null;
  /** How much the search for this component's order may look at. */
  readonly effort: number;
}

interface OrderedComponent {
  readonly order: readonly number[];
  readonly exposed: readonly Exposed[];
}

function orderComponent({ operations, component, needs, groups, landscape, effort }: ComponentInput): OrderedComponent {
  if (landscape === null) return { order: component, exposed: [] };
  const numberOf = new Map(component.map((operation, number) => [operation, number]));
  const numbering = { numberOf, size: component.length };
  const areas = areasOf(component.map((operation) => operations[operation] as Operation));
  const numbers = (list: readonly number[]): readonly number[] => list.map((other) => numberOf.get(other) as number);
  const mine = new Set(component.map((operation) => groups.groupOf[operation] as number).filter((group) => group >= 0));
  const ordering: Ordering = {
    size: component.length,
    needs: component.map((operation) => numbers(needs[operation] ?? [])),
    gaps: [...mine].map((group) => {
      const { openers, closers, ...rest } = groups.groups[group] as GapGroup;
      return { ...rest, openers: numbers(openers), closers: numbers(closers) };
    }),
    regions: [],
  };
  const forced = onlyOrder(ordering);
  const counted = forced === null ? { ...ordering, regions: regionClasses(landscape, areas, numbering) } : ordering;
  const order = forced ?? findOrder(counted, effort);
  const harmless = forced === null && exposesNothing(costOf(counted, order));
  const exposed = harmless ? [] : exposedBy({ landscape, areas, numbering, order });
  const back = (number: number): number => component[number] as number;
  return {
    order: order.map(back),
    exposed: exposed.map((item) => ({ ...item, from: back(item.from), to: back(item.to) })),
  };
}

/** The order of an ordering whose needs leave no choice, as in most gaps; null where there is one. */
function onlyOrder({ size, needs }: Ordering): readonly number[] | null {
  if (size !== 2) return null;
  if (needs[1]?.includes(0)) return [0, 1];
  return needs[0]?.includes(1) ? [1, 0] : null;
}

function exposesNothing({ opened, cutOff }: Cost): boolean {
  return opened === 0 && cutOff === 0;
}

/** The one listed order: free creates and updates, components as found, free deletes; what is to be late at the end. */
function listed(
  operations: readonly Operation[],
  order: { readonly baseline: readonly number[]; readonly found: readonly (readonly number[])[] },
  late: ReadonlySet<number>,
): readonly number[] {
  const found = order.found.flat();
  const bound = new Set(found);
  const free = order.baseline.filter((operation) => !bound.has(operation) && !late.has(operation));
  const isDelete = (operation: number): boolean => operations[operation]?.type === 'delete';
  return [
    ...free.filter((operation) => !isDelete(operation)),
    ...found.filter((operation) => !late.has(operation)),
    ...free.filter(isDelete),
    ...found.filter((operation) => late.has(operation)),
    ...order.baseline.filter((operation) => !bound.has(operation) && late.has(operation)),
  ];
}

/** Gaps are numbered in the order in which they open. */
function numberGaps(order: readonly number[], { groupOf, isGap }: Gaps): ReadonlyMap<number, number> {
  const numbers = new Map<number, number>();
  const gaps = new Map<number, number>();
  for (const operation of order) {
    const group = groupOf[operation] as number;
    if (group < 0 || isGap[group] !== true) continue;
    const number = numbers.get(group) ?? numbers.size;
    numbers.set(group, number);
    gaps.set(operation, number);
  }
  return gaps;
}
