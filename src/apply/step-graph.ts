import { collectReachable, getOrMake } from '../model/group-by.ts';
import type { Plan, Step } from '../plan/plan.ts';

/** A step, and those that wait for it. */
export interface Node {
  readonly step: Step;
  readonly unit: Unit;
  readonly after: Node[];
  /** Steps of its own unit that it still waits for. */
  missing: number;
  state: 'untaken' | 'running' | 'ended';
}

/** A step that stands alone, or a gap: steps that run from the first delete to the last create without a break. */
export interface Unit {
  /** In listed order. */
  readonly members: Node[];
  /** The units of the steps that its members wait for, one for each such step. */
  readonly before: Unit[];
  /** How many of those are still to be done: none of its steps starts before, so that it can run to its end. */
  missing: number;
  /** No step was given out yet, and none dropped. */
  isNew: boolean;
}

/**
 * Which steps belong together: by step id the name of its group; steps that stand alone are absent. A group is a gap, joined with the
 * steps at which its exposure begins and ends: the best order may cut traffic off some steps before the delete rather
 * than open it, and that must end with the gap, or be undone with it. Groups that wait for each other are one, with what stands
 * between them: so the others can each run to their end without a break.
 */
export function groupSteps({ steps, exposure }: Pick<Plan, 'steps' | 'exposure'>): ReadonlyMap<string, string> {
  const positions = new Map(steps.map(({ id }, position) => [id, position]));
  const waits = steps.map(({ after }) => after.flatMap((id) => positions.get(id) ?? []));
  /** Steps that belong together wait for each other. */
  const tie = (one: number, other: number): void => {
    waits[one]?.push(other);
    waits[other]?.push(one);
  };
  const firstOf = new Map<string, number>();
  for (const [position, { gap }] of steps.entries()) {
    const first = gap === null ? position : getOrMake(firstOf, gap, () => position);
    if (first !== position) tie(first, position);
  }
  for (const { fromStep, toStep } of exposure) {
    const [from, to] = [positions.get(fromStep), positions.get(toStep)];
    if (from !== undefined && to !== undefined) tie(from, to);
  }
  const groups = new Map<string, string>();
  // Without any, the plan lists each step after all that it waits for.
  if (firstOf.size + exposure.length === 0) return groups;
  for (const members of findCircles(waits)) {
    const [first, ...others] = members.flatMap((position) => steps[position] ?? []);
    if (first === undefined || others.length === 0) continue;
    for (const { id } of [first, ...others]) groups.set(id, first.gap === null ? first.id : `gap ${first.gap}`);
  }
  return groups;
}

/** Each with those that wait for it and that it waits for, directly or by others: the strongly connected components (Kosaraju, 1978). */
function findCircles(waits: readonly (readonly number[])[]): readonly (readonly number[])[] {
  const waiting = waits.map((): number[] => []);
  for (const [item, others] of waits.entries()) for (const one of others) waiting[one]?.push(item);
  /** Each after all that is reached from it first; `~item` on `open` says that all of that was. */
  const sorted: number[] = [];
  const reached = new Set<number>();
  const open = [...waits.keys()];
  for (let item = open.pop(); item !== undefined; item = open.pop()) {
    if (item < 0) sorted.push(~item);
    if (item < 0 || reached.has(item)) continue;
    reached.add(item);
    open.push(~item);
    for (const one of waits[item] ?? []) open.push(one);
  }
  const known = new Set<number>();
  const listNew = (items: readonly number[] = []): readonly number[] => items.filter((one) => !known.has(one));
  return sorted.toReversed().map((item) => {
    const circle = collectReachable(listNew([item]), (at) => listNew(waiting[at]));
    for (const one of circle) known.add(one);
    return [...circle].sort((a, b) => a - b);
  });
}

/** The steps of a plan in listed order, each with its unit. */
export function linkSteps(steps: readonly Step[], groups: ReadonlyMap<string, string>): ReadonlyMap<string, Node> {
  const nodes = new Map<string, Node>();
  const units = new Map<string, Unit>();
  for (const step of steps) {
    const name = groups.get(step.id) ?? step.id;
    const unit = getOrMake(units, name, () => ({ members: [], before: [], missing: 0, isNew: true }));
    const node: Node = { step, unit, after: [], missing: 0, state: 'untaken' };
    unit.members.push(node);
    nodes.set(step.id, node);
    for (const id of step.after) {
      const earlier = nodes.get(id);
      earlier?.after.push(node);
      if (earlier?.unit === unit) node.missing++;
      else if (earlier !== undefined) unit.missing = unit.before.push(earlier.unit);
    }
  }
  return nodes;
}
