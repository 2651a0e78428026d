import { getOrMake } from '../../model/group-by.ts';
import type { Rule } from '../../model/rule.ts';
import { pickLower } from '../../policy/intervals.ts';
import { getRank } from '../../policy/verdict.ts';
import { listRules, type Operation } from '../operations.ts';
import type { Gaps } from './gaps.ts';
import type { Ordering } from './ordering.ts';
import { countRegions, type Surroundings } from './regions.ts';
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
  const shapes = new Map<string, string>();
  const questions = new Map<string, Ordering>();
  const keys = components.map((component) => {
    if (isSettled(component, context)) return '';
    const question = questionOf(component, context);
    const surroundings = surroundingsOf(component, context);
    return getOrMake(shapes, `${JSON.stringify(question)} ${describeShape(surroundings)}`, () => {
      const ordering = { ...question, regions: countRegions(surroundings, context.users) };
      const key = JSON.stringify(ordering);
      questions.set(key, ordering);
      return key;
    });
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

function surroundingsOf({ members, kept }: BoundComponent, { operations }: ComponentContext): Surroundings {
  return { operations: members.map((member) => operations[member] as Operation), kept };
}

/** Equal for components that differ in nothing but where their addresses begin and who their users are: an order fits them all. */
function describeShape({ operations, kept }: Surroundings): string {
  const rules = [...listRules(operations).map(({ rule }) => rule), ...kept];
  const users = new Map<string | null, number>([[null, 0]]);
  const bases = new Map<number, bigint>();
  for (const { destination } of rules) {
    const base = bases.get(destination.family) ?? destination.first;
    bases.set(destination.family, pickLower(base, destination.first));
  }
  const texts = rules.map((rule) => {
    const { destination, ports, userId } = rule;
    const user = getOrMake(users, userId, () => users.size);
    const offset = destination.first - (bases.get(destination.family) ?? 0n);
    return `${getRank(rule)} ${user} ${destination.family} ${offset}/${destination.prefix} ${ports?.type} ${ports?.low}-${ports?.high}`;
  });
  return `${operations.map(({ type }) => type).join()} ${texts.join()}`;
}

/** Where a component's operations and the rules around it make more pairs than this, its regions are not counted. */
const mostPairs = 500_000;

/** Whether canonical order stays: there is no choice, or too much of it. */
function isSettled({ members, kept }: BoundComponent, { needs }: ComponentContext): boolean {
  if (members.length > alwaysExact && members.length * (members.length + kept.length) > mostPairs) return true;
  const [first, second] = members;
  if (members.length !== 2 || first === undefined || second === undefined) return false;
  return needs[second]?.includes(first) === true;
}

/** The component as a question of order alone, but for its regions. */
function questionOf({ members }: BoundComponent, { needs, gaps }: ComponentContext): Omit<Ordering, 'regions'> {
  const numberOf = new Map(members.map((operation, number) => [operation, number]));
  const numbers = (list: readonly number[]): readonly number[] => list.map((other) => numberOf.get(other) as number);
  const mine = new Set(members.map((operation) => gaps.groupOf[operation] as number).filter((group) => group >= 0));
  return {
    size: members.length,
    needs: members.map((operation) => numbers(needs[operation] ?? [])),
    gaps: [...mine].map((group) => {
      const list = gaps.groups[group] ?? [];
      return {
        openers: numbers(list.filter((operation) => gaps.opens[operation] === 1)),
        closers: numbers(list.filter((operation) => (gaps.blockers[operation] ?? []).length > 0)),
        startsOpen: false,
        staysOpen: false,
      };
    }),
  };
}
