import type { Operation } from '../operations.ts';
import type { Gaps } from './gaps.ts';
import { areasOf, type Neighbourhood, networksIn, viewsOf } from './neighbourhood.ts';
import type { GapGroup, Ordering } from './ordering.ts';
import { regionClasses } from './region-classes.ts';
import { alwaysExact, findOrder } from './search.ts';
import { costOf } from './walk.ts';

export interface ComponentInput {
  readonly operations: readonly Operation[];
  /** Positions in `operations`, in canonical order. */
  readonly component: readonly number[];
  readonly needs: readonly (readonly number[])[];
  readonly gaps: Gaps;
  readonly neighbourhood: Neighbourhood;
  /** How much the search for this component's order may look at. */
  readonly effort: number;
}

/** A component's operations in their order, and whether that order may expose something. */
export interface OrderedComponent {
  readonly order: readonly number[];
  readonly suspect: boolean;
}

/** Where a component's operations and the networks among them make more pairs than this, its regions are not counted. */
const mostPairs = 500_000;

/** Counts the regions of a component and finds its order; where they are too many to count, keeps canonical order. */
export function orderComponent(input: ComponentInput): OrderedComponent {
  const { operations, component, needs, gaps, neighbourhood, effort } = input;
  const numberOf = new Map(component.map((operation, number) => [operation, number]));
  const numbers = (list: readonly number[]): readonly number[] => list.map((other) => numberOf.get(other) as number);
  const mine = new Set(component.map((operation) => gaps.groupOf[operation] as number).filter((group) => group >= 0));
  const own = component.map((operation) => operations[operation] as Operation);
  const looked = { areas: areasOf(own), views: viewsOf(neighbourhood, own, true) };
  if (component.length > alwaysExact && component.length * networksIn(neighbourhood, looked.areas) > mostPairs) {
    return { order: component, suspect: true };
  }
  const ordering: Ordering = {
    size: component.length,
    needs: component.map((operation) => numbers(needs[operation] ?? [])),
    gaps: [...mine].map((group) => {
      const { openers, closers, ...rest } = gaps.groups[group] as GapGroup;
      return { ...rest, openers: numbers(openers), closers: numbers(closers) };
    }),
    regions: regionClasses(neighbourhood, looked, numberOf),
  };
  const order = findOrder(ordering, effort);
  const { opened, cutOff } = costOf(ordering, order);
  return { order: order.map((number) => component[number] as number), suspect: opened > 0 || cutOff > 0 };
}
