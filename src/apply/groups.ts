import type { Plan } from '../plan/plan.ts';

/**
 * Which steps belong together: by step id the name of its group; steps that stand alone are absent. A group is a gap, joined with the
 * steps at which its exposure begins and ends: the best order may cut traffic off some steps before the delete rather
 * than open it, and that must end with the gap, or be undone with it.
 */
export function groupSteps(plan: Plan): ReadonlyMap<string, string> {
  const parents = new Map<string, string>();
  const rootOf = (id: string): string => {
    let root = id;
    for (let next = parents.get(root); next !== undefined && next !== root; next = parents.get(root)) root = next;
    for (let at = id; at !== root; ) {
      const next = parents.get(at) ?? root;
      parents.set(at, root);
      at = next;
    }
    return root;
  };
  const join = (a: string, b: string): void => {
    parents.set(rootOf(b), rootOf(a));
  };
  for (const { id, gap } of plan.steps) if (gap !== null) join(`gap ${gap}`, id);
  for (const { fromStep, toStep } of plan.exposure) if (fromStep !== toStep) join(fromStep, toStep);
  const groups = new Map<string, string>();
  for (const { id } of plan.steps) {
    const root = rootOf(id);
    if (root !== id) groups.set(id, root).set(root, root); // the root may be a step itself
  }
  return groups;
}
