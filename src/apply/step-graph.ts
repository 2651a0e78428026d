import { collectReachable, getOrMake, groupBy } from '../model/group-by.ts';
import { mayRebuild } from '../plan/operations.ts';
import type { Plan, Step } from '../plan/plan.ts';
import { groupConnected } from '../plan/union-find.ts';

/** A step among those that it waits for and those that wait for it. */
export interface Node {
  readonly step: Step;
  readonly index: number;
  readonly before: Node[];
  readonly after: Node[];
  missing: number;
  state: 'waiting' | 'ready' | 'running' | 'done' | 'failed' | 'dropped';
  gap: Gap | null;
  /** Only counted while no gap of its own holds it back: see `Gap.missing`. */
  holds: Gap[];
}

/** Steps that run from the first delete to the last create without a break. */
export interface Gap {
  readonly members: readonly Node[];
  /** Steps outside the gap that must be done before its first delete, so that it can run to its end. */
  missing: number;
  state: 'new' | 'open' | 'ended';
  readonly mayRebuild: boolean;
}

/**
 * Which steps belong together: by step id the name of its group; steps that stand alone are absent. A group is a gap, joined with the
 * steps at which its exposure begins and ends: the best order may cut traffic off some steps before the delete rather
 * than open it, and that must end with the gap, or be undone with it.
 */
export function groupSteps({ steps, exposure }: Plan): ReadonlyMap<string, string> {
  const positions = new Map(steps.map(({ id }, position) => [id, position]));
  const firstOf = new Map<string, number>();
  const connected = groupConnected(steps.length, (connect) => {
    for (const [position, { gap }] of steps.entries())
      if (gap !== null)
        connect(
          getOrMake(firstOf, gap, () => position),
          position,
        );
    for (const { fromStep, toStep } of exposure) {
      const [from, to] = [positions.get(fromStep), positions.get(toStep)];
      if (from !== undefined && to !== undefined) connect(from, to);
    }
  });
  const groups = new Map<string, string>();
  for (const members of connected) {
    const [first, ...others] = members.flatMap((position) => steps[position] ?? []);
    if (first === undefined) continue;
    const name = first.gap === null ? first.id : `gap ${first.gap}`;
    for (const { id } of [first, ...others]) groups.set(id, name);
  }
  return groups;
}

/** The steps of a plan as linked nodes, in listed order, and their gaps. */
export function buildGraph(
  steps: readonly Step[],
  groups: ReadonlyMap<string, string>,
): { readonly nodes: readonly Node[]; readonly gaps: readonly Gap[] } {
  const nodes = new Map<string, Node>();
  for (const step of steps) {
    nodes.set(step.id, {
      step,
      index: nodes.size,
      before: [],
      after: [],
      missing: 0,
      state: 'waiting',
      gap: null,
      holds: [],
    });
  }
  link(nodes);
  return { nodes: [...nodes.values()], gaps: linkGaps(nodes, groups) };
}

function link(nodes: ReadonlyMap<string, Node>): void {
  for (const node of nodes.values()) {
    for (const id of node.step.after) {
      const earlier = nodes.get(id);
      if (earlier === undefined) continue;
      node.before.push(earlier);
      earlier.after.push(node);
      node.missing++;
    }
  }
}

function linkGaps(nodes: ReadonlyMap<string, Node>, groups: ReadonlyMap<string, string>): readonly Gap[] {
  const grouped = [...nodes.values()].filter(({ step }) => groups.has(step.id));
  const gaps = [...groupBy(grouped, ({ step }) => groups.get(step.id)).values()].map((members): Gap => {
    return { members, missing: 0, state: 'new', mayRebuild: members.some((node) => mayRebuild(node.step)) };
  });
  for (const gap of gaps) for (const node of gap.members) node.gap = gap;
  for (const gap of gaps) {
    const outside = new Set<Node>();
    const open = [...gap.members];
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      for (const node of next.before) {
        if (node.gap === gap || outside.has(node)) continue;
        outside.add(node);
        if (waitsForGap(node, gap)) {
          open.push(node); // it runs inside the gap, yet what it waits for need not
          continue;
        }
        node.holds.push(gap);
        gap.missing++;
      }
    }
  }
  return gaps;
}

/** Whether the node itself has to wait for a member of the gap: then it runs inside the gap, not before it. */
function waitsForGap(node: Node, gap: Gap): boolean {
  const earlier = collectReachable([node], (one) => (one.gap === gap ? [] : one.before));
  return [...earlier].some((one) => one.gap === gap);
}

/** Whether the step has neither been given out nor dropped. */
export function isUntaken(node: Node): boolean {
  return node.state === 'waiting' || node.state === 'ready';
}

/** The first step of the gap that may run. */
export function findFirstReady(gap: Gap): Node | null {
  return gap.members.find((node) => node.state === 'ready') ?? null;
}
