import { groupBy } from '../../model/group-by.ts';
import type { DesiredRule, LiveRule, Rule } from '../../model/rule.ts';
import { indexRules, type LaneNode, laneOf, laneRules, nodesReaching } from '../../policy/rule-index.ts';
import { changedFields } from '../fields.ts';

interface Candidate {
  /** The live rule as if it had no ports: what is looked for is its destination. */
  readonly rule: Rule;
  readonly live: LiveRule;
  readonly position: number;
}

/**
 * Each desired rule in turn takes the free live rule of its user, of those whose destination shares an address with its own, with
 * the fewest changed fields; of equally good ones the first. Live rules alike but for their port numbers are looked at together.
 */
export function pairGreedily(
  desired: readonly DesiredRule[],
  live: readonly LiveRule[],
): readonly { readonly desired: DesiredRule; readonly live: LiveRule }[] {
  const index = indexRules(
    live.map((one, position): Candidate => ({ rule: { ...one.rule, ports: null }, live: one, position })),
  );
  const shelves = new Map<LaneNode<Candidate>, readonly Shelf[]>();
  return desired.flatMap((rule) => {
    const { destination, userId } = rule.rule;
    const lane = laneRules(index, userId, laneOf(destination.family, 'other'));
    let best: Offer | null = null;
    for (const node of nodesReaching(lane, destination)) {
      const here = shelves.get(node) ?? shelvesOf(node.items);
      shelves.set(node, here);
      for (const shelf of here) best = better(best, shelf.offer(rule.rule));
    }
    if (best === null) return [];
    best.shelf.take(best.candidate);
    return [{ desired: rule, live: best.candidate.live }];
  });
}

interface Offer {
  readonly shelf: Shelf;
  readonly candidate: Candidate;
  readonly fields: number;
}

function better(a: Offer | null, b: Offer | null): Offer | null {
  if (a === null || b === null) return a ?? b;
  return (b.fields - a.fields || b.candidate.position - a.candidate.position) < 0 ? b : a;
}

function shelvesOf(candidates: readonly Candidate[]): readonly Shelf[] {
  const alike = groupBy(candidates, ({ live: { rule } }) => `${rule.action} ${rule.ports?.type}`);
  return [...alike.values()].map((items) => new Shelf(items));
}

/** Free live rules that differ in their port numbers at most, in order. */
class Shelf {
  readonly #items: readonly Candidate[];
  readonly #byPorts: ReadonlyMap<string, Candidate[]>;
  readonly #taken = new Set<Candidate>();
  #first = 0;

  constructor(items: readonly Candidate[]) {
    this.#items = items;
    this.#byPorts = groupBy(items, ({ live }) => portsText(live.rule)) as ReadonlyMap<string, Candidate[]>;
  }

  /** The first with the rule's ports, else the first. */
  offer(rule: Rule): Offer | null {
    while (this.#taken.has(this.#items[this.#first] as Candidate)) this.#first++;
    const candidate = this.#byPorts.get(portsText(rule))?.[0] ?? this.#items[this.#first];
    if (candidate === undefined) return null;
    return { shelf: this, candidate, fields: changedFields(candidate.live.rule, rule) };
  }

  take(candidate: Candidate): void {
    this.#taken.add(candidate);
    const same = this.#byPorts.get(portsText(candidate.live.rule)) ?? [];
    same.splice(same.indexOf(candidate), 1);
  }
}

function portsText({ ports }: Rule): string {
  return ports === null ? '' : `${ports.low}-${ports.high}`;
}
