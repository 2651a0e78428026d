import { collectReachable } from '../model/group-by.ts';
import { formatRuleKey } from '../model/rule.ts';
import { mayRebuild } from '../plan/operations.ts';
import type { Step } from '../plan/plan.ts';
import { buildGraph, findFirstReady, type Gap, isUntaken, type Node } from './step-graph.ts';

/** What the caller allows at this moment. */
interface TakeOptions {
  /** Nothing is in flight: the only time at which a gap is opened, or a step that may rebuild the packet filter started. */
  readonly idle: boolean;
  /** A new gap may be opened now. */
  readonly gapMayOpen: boolean;
  /** Open gaps before creating rules that need none. */
  readonly gapsFirst: boolean;
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
 * Which step may run next. Pure bookkeeping: it never waits and knows no time. A step runs after all it must wait for are
 * done; when one of those fails it is dropped. Once the first delete of a gap was taken the gap is *open*, and only steps
 * of open gaps, and steps those still need, are given out until it is closed or abandoned.
 *
 * Steps of a group (`groupSteps`) form a gap. Among what may run: rules in `closeFirst` (and what they wait for), then creates and
 * updates, gaps, deletes, and last whatever may rebuild the packet filter; each in listed order.
 */
export class Schedule {
  readonly #nodes: readonly Node[];
  readonly #byId: ReadonlyMap<string, Node>;
  readonly #urgent: ReadonlySet<Node>;
  readonly #inside: Node[] = [];
  /** Steps without which an open gap cannot be closed. */
  readonly #needed = new Set<Node>();
  readonly #first = new Queue();
  readonly #plain = new Queue();
  readonly #openers: Gap[] = [];
  readonly #deletes = new Queue();
  readonly #late = new Queue();
  #open: Gap[] = [];
  #unfinished: number;

  constructor(steps: readonly Step[], groups: ReadonlyMap<string, string>, closeFirst: ReadonlySet<string>) {
    const { nodes, gaps } = buildGraph(steps, groups);
    this.#nodes = nodes;
    this.#byId = new Map(nodes.map((node) => [node.step.id, node]));
    this.#unfinished = nodes.length;
    const owed = nodes.filter(({ step }) => step.type === 'create' && closeFirst.has(formatRuleKey(step.rule)));
    this.#urgent = collectReachable(owed, ({ before, gap }) => [...before, ...(gap?.members ?? [])]);
    for (const node of nodes) if (node.missing === 0) this.#ready(node);
    for (const gap of gaps) if (gap.missing === 0) this.#openers.push(gap);
  }

  /** The next step to start; null when nothing may start now. */
  take(options: TakeOptions): Step | null {
    const node = this.gapOpen() ? this.#takeInside(options) : this.#takeAny(options);
    if (node === null) return null;
    node.state = 'running';
    if (node.gap !== null && node.gap.state === 'new') this.#openGap(node.gap);
    return node.step;
  }

  /** Records how a taken step ended; returns the steps that therefore never run. */
  settle(step: Step, done: boolean): readonly Step[] {
    const node = this.#node(step);
    node.state = done ? 'done' : 'failed';
    this.#unfinished--;
    if (!done) return this.#dropAfter(node);
    for (const gap of node.holds) if (--gap.missing === 0 && gap.state === 'new') this.#openers.push(gap);
    for (const later of node.after) if (--later.missing === 0 && later.state === 'waiting') this.#ready(later);
    return [];
  }

  /** Gives up the open gaps: their steps not yet taken, and what needs those, are dropped and returned. */
  abandon(): readonly Step[] {
    return this.#drop(this.#open.flatMap(({ members }) => members));
  }

  /** Records that a step that was done is so no longer; returns the steps that therefore never run. */
  undone(step: Step): readonly Step[] {
    const node = this.#node(step);
    node.state = 'failed';
    return this.#dropAfter(node);
  }

  /** Forgets that gaps are open, once they were closed or restored. */
  closed(): void {
    for (const gap of this.#open) gap.state = 'ended';
    this.#open = [];
    this.#inside.length = 0;
    const needed = [...this.#needed];
    this.#needed.clear();
    for (const node of needed) if (node.state === 'ready') this.#ready(node);
  }

  gapOpen(): boolean {
    return this.#open.length > 0;
  }

  /** Steps of open gaps that have not ended. */
  openLeft(): number {
    let left = 0;
    for (const gap of this.#open)
      for (const node of gap.members) if (isUntaken(node) || node.state === 'running') left++;
    return left;
  }

  inOpenGap(step: Step): boolean {
    return this.#node(step).gap?.state === 'open';
  }

  /** Steps that have neither ended nor been dropped. */
  unfinished(): number {
    return this.#unfinished;
  }

  /** Drops the step and all that need it, before it was taken. */
  drop(step: Step): readonly Step[] {
    return this.#drop([this.#node(step)]);
  }

  /** Drops everything that was not taken. */
  dropRest(): readonly Step[] {
    return this.#drop(this.#nodes);
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
    if (this.gapOpen() && (this.#needed.has(node) || node.gap?.state === 'open')) this.#inside.push(node);
    else if (this.#urgent.has(node)) this.#first.push(node);
    else if (node.gap !== null) return;
    else if (mayRebuild(node.step)) this.#late.push(node);
    else if (node.step.type === 'delete') this.#deletes.push(node);
    else this.#plain.push(node);
  }

  #openGap(gap: Gap): void {
    gap.state = 'open';
    this.#open.push(gap);
    const needed = collectReachable(gap.members.filter(isUntaken), ({ before }) => before.filter(isUntaken));
    for (const node of [...needed].sort((a, b) => a.index - b.index)) {
      if (this.#needed.has(node)) continue;
      this.#needed.add(node);
      if (node.state === 'ready') this.#inside.push(node);
    }
  }

  #dropAfter(node: Node): readonly Step[] {
    return this.#drop([...listNew(node.holds), ...node.after]);
  }

  /** Drops those that were not taken, each with all that needs it. */
  #drop(nodes: readonly Node[]): readonly Step[] {
    const dropped: Step[] = [];
    for (const first of nodes) {
      const open = [first];
      for (let node = open.pop(); node !== undefined; node = open.pop()) {
        if (!isUntaken(node)) continue;
        node.state = 'dropped';
        this.#unfinished--;
        dropped.push(node.step);
        for (const one of node.after) open.push(one);
        for (const one of listNew(node.gap === null ? node.holds : [...node.holds, node.gap])) open.push(one);
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

/** The steps of gaps that are not open yet: such a gap is dropped as a whole, since a delete without its creates would be a hole. */
function listNew(gaps: readonly Gap[]): readonly Node[] {
  return gaps.flatMap(({ state, members }) => (state === 'new' ? members : []));
}
