import type { Rule } from '../../model/rule.ts';
import type { Operation } from '../operations.ts';
import type { Gaps } from './gaps.ts';
import type { GapGroup, Ordering } from './ordering.ts';
import { countRegions } from './regions.ts';
import { alwaysExact, findOrder, searchEffort } from './search.ts';
import { measureCost } from './walk.ts';

interface ComponentContext {
  readonly operations: readonly Operation[];
  readonly needs: readonly (readonly number[])[];
  readonly gaps: Gaps;
  /** How many users any rule names. */
  readonly users: number;
}

/** A component to be ordered: positions in `operations`, and the rules around it that stay. */
interface BoundComponent {
  readonly members: readonly number[];
  readonly kept: readonly Rule[];
}

/** A component's operations in their order, and whether that order may expose something. */
interface OrderedComponent {
  readonly order: readonly number[];
  readonly kept: readonly Rule[];
  readonly suspect: boolean;
}

/** Orders each component, given in canonical order; components that are the same question get one answer. */
export function orderComponents(
  components: readonly BoundComponent[],
  context: ComponentContext,
): readonly OrderedComponent[] {
  const questions = new Map<string, Ordering>();
  const keys = components.map((component) => {
    const ordering = orderingOf(component, context);
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
  return components.map(({ members, kept }, index) => {
    const answer = answers.get(keys[index] ?? '');
    if (answer === undefined) return { order: members, kept, suspect: true };
    return { order: answer.order.map((number) => members[number] as number), kept, suspect: answer.suspect };
  });
}

/** Where a component's operations and the rules around it make more pairs than this, its regions are not counted. */
const mostPairs = 500_000;

/** The component with its regions counted; null where there is no choice or they are too many: canonical order stays. */
function orderingOf(
  { members, kept }: BoundComponent,
  { operations, needs, gaps, users }: ComponentContext,
): Ordering | null {
  if (members.length > alwaysExact && members.length * (members.length + kept.length) > mostPairs) return null;
  if (isForced(members, needs)) return null;
  const numberOf = new Map(members.map((operation, number) => [operation, number]));
  const numbers = (list: readonly number[]): readonly number[] => list.map((other) => numberOf.get(other) as number);
  const mine = new Set(members.map((operation) => gaps.groupOf[operation] as number).filter((group) => group >= 0));
  return {
    size: members.length,
    needs: members.map((operation) => numbers(needs[operation] ?? [])),
    gaps: [...mine].map((group) => {
      const { openers, closers, ...rest } = gaps.groups[group] as GapGroup;
      return { ...rest, openers: numbers(openers), closers: numbers(closers) };
    }),
    regions: countRegions({ operations: members.map((member) => operations[member] as Operation), kept }, users),
  };
}

/** Whether the needs leave one order only, the canonical one: two operations of which one waits for the other. */
function isForced(members: readonly number[], needs: readonly (readonly number[])[]): boolean {
  const [first, second] = members;
  if (members.length !== 2 || first === undefined || second === undefined) return false;
  return needs[second]?.includes(first) === true;
}
