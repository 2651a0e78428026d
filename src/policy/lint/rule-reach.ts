import { findFirstPosition } from '../../model/group-by.ts';
import type { Action } from '../../model/rule.ts';
import { classifyByVerdict, compareStates } from '../compare-states.ts';
import type { Interval } from '../intervals.ts';
import { getLastPort, holdsPorts, touchesPorts } from '../port-set.ts';
import type { Region } from '../region.ts';
import { getLaneRules, type LaneIndex, lanes, type Ruled, type RuleIndex } from '../rule-index.ts';
import { sweep } from '../sweep.ts';
import { noTraffic } from '../traffic-set.ts';
import { defaultVerdict } from '../verdict.ts';
import type { Ranking } from './leaders.ts';
import { type PortKey, TopTwo } from './top-two-by-port.ts';

/** `never`: other rules decide every packet that it matches. `idle`: it changes no verdict. `matters`: it changes some. */
export type RuleReach = 'never' | 'idle' | 'matters';

/** The reach of every rule, exactly. A global rule is judged on nobody's packets, a user's rule on that user's. */
export function computeRuleReach<T extends Ruled>(index: RuleIndex<T>, ranking: Ranking<T>): ReadonlyMap<T, RuleReach> {
  const ledger = openLedger(index, ranking);
  for (const [lane] of lanes.entries()) {
    walkScope(ledger, lane, getLaneRules(index, null, lane), null);
    const dropped = ledger.droppedFor(lane);
    const under: Beneath = (box, wanted) => beneath(dropped, box, wanted);
    for (const user of index.users) walkScope(ledger, lane, getLaneRules(index, user, lane), under);
  }
  return new Map(
    ledger.items.map((item, key) => [item, ledger.matters[key] ? 'matters' : ledger.decides[key] ? 'idle' : 'never']),
  );
}

/** What is known so far; rules go by their key. */
interface Ledger<T extends Ruled> extends Ranking<T> {
  readonly decides: Uint8Array;
  readonly matters: Uint8Array;
  /** What the global rules drop in a lane. */
  readonly droppedFor: (lane: number) => Region;
}

function openLedger<T extends Ruled>(index: RuleIndex<T>, { items, keys }: Ranking<T>): Ledger<T> {
  return {
    items,
    keys,
    decides: new Uint8Array(items.length),
    matters: new Uint8Array(items.length),
    droppedFor: droppedBeneathUsers(index, items),
  };
}

/** What the global rules drop in a lane, of the addresses and ports that users' rules name: nobody asks for more. */
function droppedBeneathUsers<T extends Ruled>(index: RuleIndex<T>, items: readonly T[]): (lane: number) => Region {
  if (index.users.length === 0) return () => [];
  const asked = items
    .filter(({ rule }) => rule.userId !== null)
    .map(({ rule }) => ({ rule: { ...rule, userId: null } }));
  const [dropped] = compareStates<Ruled>({
    index: { scopes: new Map([[null, index.scopes.get(null) ?? []]]), users: [] },
    states: 1,
    statesOf: () => 1,
    within: asked,
    classes: 1,
    classify: classifyByVerdict((accepts) => (accepts === 0 ? 1 : 0)),
  });
  return (lane) => (dropped?.get(null) ?? noTraffic)[lane] ?? [];
}

/** Addresses and ports; for protocol `other` port 0. */
interface Box extends Interval {
  readonly low: number;
  readonly high: number;
}

/** The verdict beneath a scope's own rules: `wanted` when all of the box gets it, else the opposite. */
type Beneath = (box: Box, wanted: Action) => Action;

/** The scope's rules at some addresses. Rules with ports beat those without, so the two are kept apart. */
interface Place {
  readonly ports: TopTwo;
  /** The two lowest keys of rules without ports. */
  readonly flat: readonly [number, number];
}

/** Walks one scope's rules in one lane. `under` null: beneath them is the default. */
function walkScope<T extends Ruled>(ledger: Ledger<T>, lane: number, rules: LaneIndex<T>, under: Beneath | null): void {
  const none = ledger.items.length;
  const lastOf = getLastPort(lanes[lane]?.protocol ?? 'other');
  for (const area of rules.named) {
    sweep<T, Place>([rules], area, {
      empty: { ports: new TopTwo(none), flat: [none, none] },
      extend: (outer, items) => addRules(outer, items, ledger),
      visit: (first, last, place) => {
        const judge: Judge = ([best, second], low, high) => {
          ledger.decides[best] = 1;
          const wanted = actionOf(ledger, best);
          const box = { first, last, low, high: Math.min(high, lastOf) };
          const next = second < none || under === null ? actionOf(ledger, second) : under(box, wanted);
          if (next !== wanted) ledger.matters[best] = 1;
        };
        if (under === null) judgeOnce(ledger, place, judge);
        else judgePlace(ledger, place, judge);
        return true;
      },
    });
  }
}

/** Takes note that the first of two keys decides at these ports, with the second beneath it. */
type Judge = (keys: readonly [number, number], low: number, high: number) => void;

function actionOf<T extends Ruled>({ items }: Ledger<T>, key: number): Action {
  return items[key]?.rule.action ?? defaultVerdict;
}

function addRules<T extends Ruled>({ ports, flat }: Place, items: readonly T[], { keys }: Ledger<T>): Place {
  const added: PortKey[] = [];
  let [best, second] = flat;
  for (const item of items) {
    const key = keys.get(item) ?? 0;
    if (item.rule.ports !== null) added.push({ ports: item.rule.ports, key });
    else if (key < best) [best, second] = [key, best];
    else second = Math.min(key, second);
  }
  return { ports: added.length === 0 ? ports : ports.with(added), flat: [best, second] };
}

/** With the default beneath, the addresses do not matter: what was judged for one place is not judged again for another. */
function judgeOnce<T extends Ruled>(ledger: Ledger<T>, { ports, flat }: Place, judge: Judge): void {
  const [best] = flat;
  if (best < ledger.items.length && ports.openPorts > 0) judge(flat, 0, 0);
  ports.eachFresh(actionOf(ledger, best), (piece) => {
    judge([piece.best, Math.min(piece.second, best)], piece.low, piece.high);
  });
}

/** The rule without ports decides where no rule with ports does. */
function judgePlace<T extends Ruled>(ledger: Ledger<T>, { ports, flat }: Place, judge: Judge): void {
  const none = ledger.items.length;
  ports.each(({ low, high, best, second }) => {
    const decides = best < none ? best : flat[0];
    if (decides >= none || ledger.matters[decides]) return;
    judge(best < none ? [best, Math.min(second, flat[0])] : flat, low, high);
  });
}

function beneath(dropped: Region, { first, last, low, high }: Box, wanted: Action): Action {
  let at = first;
  for (let i = findFirstPosition(dropped.length, (index) => (dropped[index]?.last ?? 0n) >= first); at <= last; i++) {
    const slab = dropped[i];
    if (slab === undefined || slab.first > last) return 'accept';
    if (wanted === 'drop' && slab.first > at) return 'accept';
    if (wanted === 'accept' && touchesPorts(slab.ports, { low, high })) return 'drop';
    if (wanted === 'drop' && !holdsPorts(slab.ports, { low, high })) return 'accept';
    at = slab.last + 1n;
  }
  return wanted;
}
