import { getOrMake } from '../../model/group-by.ts';
import { pickLower } from '../../model/intervals.ts';
import type { Profile } from '../../model/profile.ts';
import { compareRules, type Rule } from '../../model/rule.ts';
import { getRank, noRank } from '../../policy/verdict.ts';
import { formatStepId, type Links, listRules, type Operation, type RuleStep } from '../plan.ts';
import { groupConnected } from '../union-find.ts';
import { findDependencies } from './dependencies.ts';
import { type Gaps, groupGaps, nameGaps, rebuildsLast } from './gaps.ts';
import type { Ordering } from './ordering.ts';
import { countRegions, findKeptRules, type Surroundings } from './regions.ts';
import { alwaysExact, findOrder, searchEffort } from './search.ts';
import { relate } from './sharing.ts';
import { measureCost } from './walk.ts';

export interface Order {
  readonly steps: readonly RuleStep[];
  /** Of the components that may expose traffic, positions in `steps`, ascending, and the rules around that stay. */
  readonly suspects: { readonly positions: readonly number[]; readonly kept: ReadonlySet<Rule> };
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
 * order exposes nothing, and no region is ever looked at; nor is it where two operations leave no choice. The other
 * components are each ordered by cost, and listed after the other creates and before the other deletes; what may make the
 * server rebuild its filter comes last of all.
 */
export function orderOperations({ operations, kept, profile }: OrderInput): Order {
  const { sharing, blockers } = relate(operations, profile.refusesCollisions);
  const components = groupConnected(operations.length, (connect) => {
    for (let i = 0; i < sharing.length; i += 2) connect(sharing[i] as number, sharing[i + 1] as number);
  });
  const gaps = groupGaps(operations, blockers);
  const { needs, late } = rebuildsLast(operations, components, gaps);
  const baseline = orderByRank(operations, needs);
  const place = new Int32Array(operations.length);
  for (let position = 0; position < baseline.length; position++) place[baseline[position] as number] = position;
  // The others are at their best, and valid, in rank order.
  const bound = components
    .filter((component) => component.some((one) => (needs[one]?.length ?? 0) > 0 || operations[one]?.type === 'update'))
    .map((component) => component.toSorted((a, b) => (place[a] as number) - (place[b] as number)))
    .sort((a, b) => (place[a[0] as number] as number) - (place[b[0] as number] as number));
  const around = findKeptRules(operations, bound, kept);
  const surrounded = bound.map((members, index) => ({ members, kept: around[index] ?? [] }));
  const rules = [...kept, ...listRules(operations).map(({ rule }) => rule)];
  const users = new Set(rules.flatMap(({ userId }) => userId ?? []));
  const found = orderComponents(surrounded, { operations, needs, gaps, users: users.size });
  const suspects = found.filter(({ suspect }) => suspect);
  const order = listed(operations, { baseline, found: found.flatMap(({ members }) => members) }, late);
  for (let position = 0; position < order.length; position++) place[order[position] as number] = position;
  const after = findDependencies({ operations, order, positions: place, sharing, needs, components });
  const names = nameGaps(order, gaps);
  const ids = order.map((_, position) => formatStepId(position));
  return {
    steps: order.map((operation, position) => ({
      id: ids[position] as string,
      after: (after[position] ?? []).map((earlier) => ids[earlier] as string),
      gap: names[position] ?? null,
      ...(operations[operation] as Operation),
    })),
    suspects: {
      positions: suspects.flatMap(({ members }) => members.map((one) => place[one] as number)).sort((a, b) => a - b),
      kept: new Set(suspects.flatMap(({ kept: near }) => near)),
    },
  };
}

/** The one listed order: free creates and updates, components as found, free deletes; what is to be late at the end. */
function listed(
  operations: readonly Operation[],
  { baseline, found }: { readonly baseline: readonly number[]; readonly found: readonly number[] },
  late: ReadonlySet<number>,
): readonly number[] {
  const taken = new Set(found);
  const free = baseline.filter((operation) => !taken.has(operation) && !late.has(operation));
  const isDelete = (operation: number): boolean => operations[operation]?.type === 'delete';
  return [
    ...free.filter((operation) => !isDelete(operation)),
    ...found.filter((operation) => !late.has(operation)),
    ...free.filter(isDelete),
    ...found.filter((operation) => late.has(operation)),
    ...baseline.filter((operation) => !taken.has(operation) && late.has(operation)),
  ];
}

interface ComponentContext {
  readonly operations: readonly Operation[];
  readonly needs: Links;
  readonly gaps: Gaps;
  /** How many users any rule names. */
  readonly users: number;
}

/** Positions in `operations` in canonical order, and the rules around them that stay. */
interface BoundComponent {
  readonly members: readonly number[];
  readonly kept: readonly Rule[];
}

/** Orders each component, and tells whether it may expose something (`suspect`); those that are the same question get one answer. */
function orderComponents(components: readonly BoundComponent[], context: ComponentContext) {
  const shapes = new Map<string, string>();
  const questions = new Map<string, Ordering>();
  const keys = components.map((component) => {
    if (isSettled(component, context)) return '';
    const question = questionOf(component, context);
    const { members, kept } = component;
    const surroundings = { operations: members.map((member) => context.operations[member] as Operation), kept };
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
    const { order, suspect } = answers.get(keys[index] ?? '') ?? { order: members.keys(), suspect: true };
    return { members: Array.from(order, (number) => members[number] as number), kept, suspect };
  });
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
const mostPairs = 1_000_000;

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

/**
 * Rank order with each needed operation just before the one that needs it: creates from the highest rank to the lowest, then
 * updates likewise, then the remaining deletes from the lowest rank to the highest. Where nothing collides this moves each
 * packet's verdict at most once, from the one before to the one after (docs/explanation/planning.md). Returns positions in `operations`.
 */
export function orderByRank(operations: readonly Operation[], needs: Links): readonly number[] {
  const rules = operations.map((one) => (one.type === 'delete' ? one.live.rule : one.rule));
  const ranks = rules.map(getRank);
  // The place of operations of one type and rank among all.
  const classes = operations.map(({ type }, at) => phases[type] + (ranks[at] as number) * (type === 'delete' ? -1 : 1));
  const wanted = [...operations.keys()].sort(
    (a, b) => (classes[a] as number) - (classes[b] as number) || compareRules(rules[a] as Rule, rules[b] as Rule),
  );
  const placed = new Uint8Array(operations.length);
  const order: number[] = [];
  const path: number[] = [];
  for (const operation of wanted) {
    path.push(operation);
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
      if (placed[top] === 1) {
        path.pop();
        continue;
      }
      const missing = (needs[top] ?? []).filter((need) => placed[need] === 0);
      if (missing.length > 0) {
        for (const one of missing.reverse()) path.push(one);
        if (path.length > operations.length ** 2 + 1) throw new Error('operations need each other in a circle');
        continue;
      }
      path.pop();
      placed[top] = 1;
      order.push(top);
    }
  }
  return order;
}

const phases = { create: 0, update: noRank, delete: 3 * noRank } as const;
