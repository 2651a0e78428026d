import type { Rule } from '../../model/rule.ts';
import type { Operation } from '../operations.ts';
import type { Gaps } from './gaps.ts';
import { collectAreas, countNetworks, makeViews, type Neighbourhood, survey } from './neighbourhood.ts';
import type { GapGroup, Ordering } from './ordering.ts';
import { classifyRegions } from './region-classes.ts';
import { alwaysExact, findOrder, searchEffort } from './search.ts';
import { measureCost } from './walk.ts';

export interface ComponentContext {
  readonly operations: readonly Operation[];
  readonly needs: readonly (readonly number[])[];
  readonly gaps: Gaps;
  /** The rules that are there before, all the way, and after. */
  readonly kept: readonly Rule[];
}

/** A component's operations in their order, and whether that order may expose something. */
export interface OrderedComponent {
  readonly order: readonly number[];
  readonly suspect: boolean;
}

/** Orders each component (positions in `operations`); components that are the same question get one answer. */
export function orderComponents(
  components: readonly (readonly number[])[],
  context: ComponentContext,
): readonly OrderedComponent[] {
  const neighbourhood = survey(context.operations, components.flat(), context.kept);
  const questions = new Map<string, Ordering>();
  const keys = components.map((component) => {
    const ordering = orderingOf(component, context, neighbourhood);
    const key = ordering === null ? '' : JSON.stringify(ordering);
    if (ordering !== null) questions.set(key, ordering);
    return key;
  });
  const answers = new Map(
    [...questions].map(([key, ordering]) => {
      const order = findOrder(ordering, searchEffort / questions.size);
      const { opened, cutOff } = measureCost(ordering, order);
      return [key, { order, suspect: opened > 0 || cutOff > 0 }] as const;
    }),
  );
  return components.map((component, index) => {
    const answer = answers.get(keys[index] ?? '');
    if (answer === undefined) return { order: component, suspect: true };
    return { order: answer.order.map((number) => component[number] as number), suspect: answer.suspect };
  });
}

/** Where a component's operations and the networks among them make more pairs than this, its regions are not counted. */
const mostPairs = 500_000;

/** The component with its regions counted; null where they are too many to count, and canonical order stays. */
function orderingOf(
  component: readonly number[],
  { operations, needs, gaps }: ComponentContext,
  neighbourhood: Neighbourhood,
): Ordering | null {
  const numberOf = new Map(component.map((operation, number) => [operation, number]));
  const numbers = (list: readonly number[]): readonly number[] => list.map((other) => numberOf.get(other) as number);
  const mine = new Set(component.map((operation) => gaps.groupOf[operation] as number).filter((group) => group >= 0));
  const own = component.map((operation) => operations[operation] as Operation);
  const looked = { areas: collectAreas(own), views: makeViews(neighbourhood, own, true) };
  if (component.length > alwaysExact && component.length * countNetworks(neighbourhood, looked.areas) > mostPairs) {
    return null;
  }
  return {
    size: component.length,
    needs: component.map((operation) => numbers(needs[operation] ?? [])),
    gaps: [...mine].map((group) => {
      const { openers, closers, ...rest } = gaps.groups[group] as GapGroup;
      return { ...rest, openers: numbers(openers), closers: numbers(closers) };
    }),
    regions: classifyRegions(neighbourhood, looked, numberOf),
  };
}
