import { collectReachable } from '../model/group-by.ts';
import { formatRuleKey } from '../model/rule.ts';
import { mayRebuild, type Step } from '../plan/plan.ts';
import { linkSteps, type Node, type Unit } from './step-graph.ts';

/** What the caller allows at this moment. */
interface TakeOptions {
  /** Nothing is in flight: the only time at which a gap is opened, or a step that may rebuild the packet filter started. */
  readonly idle: boolean;
  /** A new gap may be opened now. */
  readonly gapMayOpen: boolean;
  /** Open gaps before creating rules that need none. */
  readonly gapsFirst: boolean;
}

/** A queue that keeps the order of arrival; units that were begun or dropped are skipped. */
function createQueue() {
  const units: Unit[] = [];
  let head = 0;
  return {
    push: (unit: Unit): void => void units.push(unit),
    first(): Unit | null {
      while (units[head]?.isNew === false) head++;
      return units[head] ?? null;
    },
  };
}

const usualOrder = ['urgent', 'plain', 'gap', 'delete', 'late'] as const;
const gapsFirstOrder = ['urgent', 'gap', 'plain', 'delete', 'late'] as const;

/**
 * Which step may run next. Pure bookkeeping: it never waits and knows no time. A step runs after all it must wait for are
 * done; when one of those fails it is dropped. Once the first step of a gap (a group of `groupSteps`) was taken the gap is *open*, and
 * only its steps are given out until it is closed or abandoned.
 *
 * Among what may run: rules in `closeFirst` (and what they wait for), then creates and updates, gaps, deletes, and last whatever
 * may rebuild the packet filter; each in listed order.
 */
export class Schedule {
  readonly #nodes: ReadonlyMap<string, Node>;
  readonly #urgent: ReadonlySet<Unit>;
  readonly #queues = new Map(usualOrder.map((kind) => [kind, createQueue()]));
  #open: Unit | null = null;
  /** How many steps have neither ended nor been dropped; changed here alone. */
  unfinished: number;

  constructor(steps: readonly Step[], groups: ReadonlyMap<string, string>, closeFirst: ReadonlySet<string>) {
    this.#nodes = linkSteps(steps, groups);
    this.unfinished = steps.length;
    const nodes = [...this.#nodes.values()];
    const owed = nodes.filter(({ step }) => step.type === 'create' && closeFirst.has(formatRuleKey(step.rule)));
    const units = owed.map(({ unit }) => unit);
    this.#urgent = collectReachable(units, ({ before }) => before);
    for (const unit of new Set(nodes.map((node) => node.unit))) if (unit.missing === 0) this.#ready(unit);
  }

  /** The next step to start; null when nothing may start now. */
  take(options: TakeOptions): Step | null {
    const node = this.#open === null ? this.#begin(options) : findNext(this.#open, options.idle);
    if (node === null) return null;
    node.state = 'running';
    return node.step;
  }

  /** Records how a taken step ended; returns the steps that therefore never run. */
  settle(step: Step, done: boolean): readonly Step[] {
    const node = this.#end(step);
    if (!done) return this.#drop(node.after);
    for (const later of node.after) {
      if (later.unit === node.unit) later.missing--;
      else if (--later.unit.missing === 0) this.#ready(later.unit);
    }
    return [];
  }

  /** Gives up the open gap: its steps not yet taken, and what needs those, are dropped and returned. */
  abandon(): readonly Step[] {
    return this.#drop(this.#open?.members ?? []);
  }

  /** Records that a step that was done is so no longer; returns the steps that therefore never run. */
  undone(step: Step): readonly Step[] {
    return this.#drop(this.#node(step).after);
  }

  /** Forgets that a gap is open, once it was closed or restored. */
  closed(): void {
    this.#open = null;
  }

  gapOpen(): boolean {
    return this.#open !== null;
  }

  /** Whether a gap is open of which all steps have ended. */
  gapEnded(): boolean {
    return this.#open?.members.every(({ state }) => state === 'ended') ?? false;
  }

  /** Drops those that were not taken, and all that need them. */
  drop(steps: readonly Step[]): readonly Step[] {
    return this.#drop(steps.map((step) => this.#node(step)));
  }

  /** A gap, and what may rebuild the filter, waits for what is in flight, so that nothing comes between its steps. */
  #begin({ idle, gapMayOpen, gapsFirst }: TakeOptions): Node | null {
    for (const kind of gapsFirst ? gapsFirstOrder : usualOrder) {
      const unit = this.#queues.get(kind)?.first();
      if (!unit || (isGap(unit) && !gapMayOpen)) continue;
      if (!idle && (isGap(unit) || isLate(unit))) return null;
      unit.isNew = false;
      if (isGap(unit)) this.#open = unit;
      return findNext(unit, true);
    }
    return null;
  }

  #ready(unit: Unit): void {
    const alone = unit.members[0]?.step.type === 'delete' ? 'delete' : 'plain';
    const kind = isLate(unit) ? 'late' : isGap(unit) ? 'gap' : alone;
    this.#queues.get(this.#urgent.has(unit) ? 'urgent' : kind)?.push(unit);
  }

  /** Drops those that were not taken, each with all that needs it; a gap that is not open yet as a whole: half of it would be a hole. */
  #drop(nodes: readonly Node[]): readonly Step[] {
    const dropped: Step[] = [];
    for (const first of nodes) {
      const open = [first];
      for (let node = open.pop(); node !== undefined; node = open.pop()) {
        if (node.state !== 'untaken') continue;
        this.#end(node.step);
        dropped.push(node.step);
        for (const one of node.after) open.push(one);
        if (!node.unit.isNew) continue;
        node.unit.isNew = false;
        for (const one of node.unit.members) open.push(one);
      }
    }
    return dropped;
  }

  #end(step: Step): Node {
    const node = this.#node(step);
    node.state = 'ended';
    this.unfinished--;
    return node;
  }

  #node(step: Step): Node {
    const node = this.#nodes.get(step.id);
    if (node === undefined) throw new Error(`step ${step.id} is not in this plan`);
    return node;
  }
}

function isGap({ members }: Unit): boolean {
  return members.length > 1;
}

function isLate({ members }: Unit): boolean {
  return members.some(({ step }) => mayRebuild(step));
}

/** The first step of a unit that may run now. */
function findNext({ members }: Unit, idle: boolean): Node | null {
  const next = ({ state, missing, step }: Node): boolean =>
    state === 'untaken' && missing === 0 && (idle || !mayRebuild(step));
  return members.find(next) ?? null;
}
