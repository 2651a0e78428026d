import { formatRuleKey } from '../model/rule.ts';
import { mayRebuild } from '../plan/operations.ts';
import type { Step } from '../plan/plan.ts';
import { addAncestors, buildGraph, findFirstReady, type Gap, isUntaken, type Node } from './step-graph.ts';

/** What the caller allows at this moment. */
interface TakeOptions {
  /** Nothing is in flight: the only time at which a gap is opened, or a step that may rebuild the packet filter started. */
  readonly idle: boolean;
  /** A new gap may be opened now. */
  readonly gapMayOpen: boolean;
  /** Open gaps before creating rules that need none. */
  readonly gapsFirst: boolean;
}

/**
 * Which step may run next. Pure bookkeeping: it never waits and knows no time. A step runs after all it must wait for are
 * done; when one of those fails it is dropped. Once the first delete of a gap was taken the gap is *open*, and only steps
 * of open gaps, and steps those still need, are given out until it is closed or abandoned.
 */
export interface Schedule {
  /** The next step to start; null when nothing may start now. */
  take(options: TakeOptions): Step | null;
  /** Records how a taken step ended; returns the steps that therefore never run. */
  settle(step: Step, done: boolean): readonly Step[];
  /** Gives up the open gaps: their steps not yet taken, and what needs those, are dropped and returned. */
  abandon(): readonly Step[];
  /** Records that a step that was done is so no longer; returns the steps that therefore never run. */
  undone(step: Step): readonly Step[];
  /** Forgets that gaps are open, once they were closed or restored. */
  closed(): void;
  gapOpen(): boolean;
  /** Steps of open gaps that have not ended. */
  openLeft(): number;
  inOpenGap(step: Step): boolean;
  /** Steps that have neither ended nor been dropped. */
  unfinished(): number;
  /** Drops the step and all that need it, before it was taken. */
  drop(step: Step): readonly Step[];
  /** Drops everything that was not taken. */
  dropRest(): readonly Step[];
}

/** A queue that keeps the order of arrival; settled entries are skipped. */
class Queue {
  readonly #nodes: Node[] = [];
  #head = 0;

  push(node: Node): void {
    this.#nodes.push(node);
  }

  first(): Node | null {
    while (this.#head < this.#nodes.length) {
      const node = this.#nodes[this.#head];
      if (node !== undefined && node.state === 'ready') return node;
      this.#head++;
    }
    return null;
  }
}

/**
 * A schedule of the plan's steps; those of a group (`groupSteps`) form a gap. Among what may run: rules in `closeFirst` (and
 * what they wait for), then creates and updates, gaps, deletes, and last whatever may rebuild the packet filter; each in listed order.
 */
export function createSchedule(
  steps: readonly Step[],
  groups: ReadonlyMap<string, string>,
  closeFirst: ReadonlySet<string>,
): Schedule {
  const { nodes, gaps } = buildGraph(steps, groups);
  const urgent = new Set<Node>();
  for (const node of nodes) {
    if (node.step.type === 'create' && closeFirst.has(formatRuleKey(node.step.rule))) addAncestors(node, urgent);
  }
  return new RunningSchedule(nodes, gaps, urgent);
}

class RunningSchedule implements Schedule {
  readonly #nodes: readonly Node[];
  readonly #byId: ReadonlyMap<string, Node>;
  readonly #urgent: ReadonlySet<Node>;
  readonly #inside: Node[] = [];
  readonly #needed: Node[] = [];
  readonly #first = new Queue();
  readonly #plain = new Queue();
  readonly #openers: Gap[] = [];
  readonly #deletes = new Queue();
  readonly #late = new Queue();
  #open: Gap[] = [];
  #unfinished: number;

  constructor(nodes: readonly Node[], gaps: readonly Gap[], urgent: ReadonlySet<Node>) {
    this.#nodes = nodes;
    this.#byId = new Map(nodes.map((node) => [node.step.id, node]));
    this.#urgent = urgent;
    this.#unfinished = nodes.length;
    for (const node of nodes) if (node.missing === 0) this.#ready(node);
    for (const gap of gaps) if (gap.missing === 0) this.#openers.push(gap);
  }

  take(options: TakeOptions): Step | null {
    const node = this.gapOpen() ? this.#takeInside(options) : this.#takeAny(options);
    if (node === null) return null;
    node.state = 'running';
    if (node.gap !== null && node.gap.state === 'new') this.#openGap(node.gap);
    return node.step;
  }

  settle(step: Step, done: boolean): readonly Step[] {
    const node = this.#node(step);
    node.state = done ? 'done' : 'failed';
    this.#unfinished--;
    if (!done) return this.#dropAfter(node);
    for (const gap of node.holds) if (--gap.missing === 0 && gap.state === 'new') this.#openers.push(gap);
    for (const later of node.after) if (--later.missing === 0 && later.state === 'waiting') this.#ready(later);
    return [];
  }

  abandon(): readonly Step[] {
    const dropped: Step[] = [];
    for (const gap of this.#open) {
      for (const node of gap.members) if (isUntaken(node)) for (const one of this.#dropNode(node)) dropped.push(one);
    }
    return dropped;
  }

  undone(step: Step): readonly Step[] {
    const node = this.#node(step);
    node.state = 'failed';
    return this.#dropAfter(node);
  }

  closed(): void {
    for (const gap of this.#open) gap.state = 'ended';
    this.#open = [];
    this.#inside.length = 0;
    const needed = this.#needed.splice(0);
    for (const node of needed) node.needed = false;
    for (const node of needed) if (node.state === 'ready') this.#ready(node);
  }

  gapOpen(): boolean {
    return this.#open.length > 0;
  }

  openLeft(): number {
    let left = 0;
    for (const gap of this.#open)
      for (const node of gap.members) if (isUntaken(node) || node.state === 'running') left++;
    return left;
  }

  inOpenGap(step: Step): boolean {
    return this.#node(step).gap?.state === 'open';
  }

  unfinished(): number {
    return this.#unfinished;
  }

  drop(step: Step): readonly Step[] {
    const node = this.#node(step);
    return isUntaken(node) ? this.#dropNode(node) : [];
  }

  dropRest(): readonly Step[] {
    const dropped: Step[] = [];
    if (this.#unfinished === 0) return dropped;
    for (const node of this.#nodes) if (isUntaken(node)) for (const one of this.#dropNode(node)) dropped.push(one);
    return dropped;
  }

  #takeInside(options: TakeOptions): Node | null {
    for (const node of this.#inside) {
      if (node.state === 'ready' && (options.idle || !mayRebuild(node.step))) return node;
    }
    return null;
  }

  /** A gap, and what may rebuild the filter, waits for what is in flight, so that nothing comes between its steps. */
  #takeAny(options: TakeOptions): Node | null {
    const next = this.#next(options);
    const exclusive = next !== null && (next.gap !== null || mayRebuild(next.step));
    return exclusive && !options.idle ? null : next;
  }

  #next({ gapMayOpen, gapsFirst, idle }: TakeOptions): Node | null {
    const urgent = this.#first.first();
    if (urgent !== null && (urgent.gap === null || (gapMayOpen && urgent.gap.missing === 0))) return urgent;
    const gap = gapMayOpen ? this.#nextGap() : null;
    const opener = gap === null ? null : findFirstReady(gap);
    const early = gap?.mayRebuild === true ? null : opener;
    const any = (gapsFirst ? early : null) ?? this.#plain.first() ?? early ?? this.#deletes.first();
    if (any !== null) return any;
    return opener ?? this.#late.first() ?? (gapMayOpen && idle ? this.#unstick() : null);
  }

  /** The first gap that may be opened; one that may rebuild the filter only when nothing else waits for its turn. */
  #nextGap(): Gap | null {
    let late: Gap | null = null;
    for (let index = 0; index < this.#openers.length; index++) {
      const gap = this.#openers[index];
      if (gap === undefined || gap.state !== 'new' || !gap.members.some(isUntaken)) {
        this.#openers.splice(index--, 1);
        continue;
      }
      if (findFirstReady(gap) === null) continue;
      if (!gap.mayRebuild) return gap;
      late ??= gap;
    }
    return late;
  }

  /** Gaps that wait for each other's deletes: open the first in listed order, the others follow as needed. */
  #unstick(): Node | null {
    return this.#nodes.find((node) => node.state === 'ready') ?? null;
  }

  #ready(node: Node): void {
    node.state = 'ready';
    if (this.gapOpen() && (node.needed || node.gap?.state === 'open')) this.#inside.push(node);
    else if (this.#urgent.has(node)) this.#first.push(node);
    else if (node.gap !== null) return;
    else if (mayRebuild(node.step)) this.#late.push(node);
    else if (node.step.type === 'delete') this.#deletes.push(node);
    else this.#plain.push(node);
  }

  #openGap(gap: Gap): void {
    gap.state = 'open';
    this.#open.push(gap);
    const needed = new Set<Node>();
    const open = [...gap.members];
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      if (needed.has(next) || !isUntaken(next)) continue;
      needed.add(next);
      for (const one of next.before) open.push(one);
    }
    for (const node of [...needed].sort((a, b) => a.index - b.index)) {
      if (node.needed) continue;
      node.needed = true;
      this.#needed.push(node);
      if (node.state === 'ready') this.#inside.push(node);
    }
  }

  #dropAfter(node: Node): Step[] {
    const dropped: Step[] = [];
    for (const gap of node.holds) {
      if (gap.state !== 'new') continue;
      for (const member of gap.members)
        if (isUntaken(member)) for (const one of this.#dropNode(member)) dropped.push(one);
    }
    for (const later of node.after) if (isUntaken(later)) for (const one of this.#dropNode(later)) dropped.push(one);
    return dropped;
  }

  /** A gap that is not open yet is dropped as a whole: a delete without its creates would be a hole. */
  #dropNode(first: Node): Step[] {
    const dropped: Step[] = [];
    const open = [first];
    for (let node = open.pop(); node !== undefined; node = open.pop()) {
      if (!isUntaken(node)) continue;
      node.state = 'dropped';
      this.#unfinished--;
      dropped.push(node.step);
      for (const one of node.after) open.push(one);
      for (const gap of [...node.holds, ...(node.gap === null ? [] : [node.gap])]) {
        if (gap.state === 'new') for (const one of gap.members) open.push(one);
      }
    }
    return dropped;
  }

  #node(step: Step): Node {
    const node = this.#byId.get(step.id);
    if (node === undefined) throw new Error(`step ${step.id} is not in this plan`);
    return node;
  }
}
