import { compareNetworks, coverRange, type Network } from '../model/address.ts';
import { getOrMake } from '../model/group-by.ts';
import { compareText } from '../model/problem.ts';
import { type Protocol, protocols } from '../model/state.ts';
import type { CollectedTraffic } from './collect-traffic.ts';
import { formatPortsKey, type PortSet } from './port-set.ts';
import { type LaneRegions, layOver, noTraffic, type Slab } from './region.ts';
import { getLane } from './rule-index.ts';
import type { Traffic } from './traffic.ts';

/** Parts of traffic that may still be listed; a part takes as much memory as the texts of eight networks beside it. */
export type TrafficBudget = Record<'parts', number>;

/**
 * The traffic of a class in the canonical rendering, for nobody and these users, who are sorted: the fewest CIDRs with equal ports are one
 * `Traffic`; sorted by user, lowest destination, protocol. Beyond the budget, which is then below zero, that of the first who has any.
 */
export function renderTraffic<C>({ nobody, others }: CollectedTraffic<C>, users: readonly string[]) {
  const render = prepareRendering();
  // Each class is of few users, or there are many classes.
  const owners = new Map<C, { readonly alike: readonly string[]; readonly changes: LaneRegions }[]>();
  for (const { users: alike, changes: all } of others)
    for (const [one, changes] of all) getOrMake(owners, one, () => []).push({ alike, changes });
  return (one: C, budget: TrafficBudget = { parts: Number.POSITIVE_INFINITY }): readonly Traffic[] => {
    const theirs = nobody.get(one) ?? noTraffic;
    const common = render(theirs, budget);
    const own = new Map<string | null, readonly Piece[]>([[null, common]]);
    for (const { alike, changes } of owners.get(one) ?? []) {
      if (budget.parts < 0) break;
      const pieces = render(layOver(theirs, changes), budget);
      for (const user of alike) own.set(user, pieces);
      budget.parts -= pieces.length * alike.length;
    }
    const sources = common.length > 0 ? [null, ...users] : [...own.keys()].sort(compareSources);
    // Those who are not among the others have what nobody has.
    if (budget.parts - common.length * (1 + users.length - own.size) < 0) budget.parts = -1;
    const piecesOf = (user: string | null): readonly Piece[] => own.get(user) ?? common;
    const first = sources.filter((user) => piecesOf(user).length > 0).slice(0, 1);
    return (budget.parts < 0 ? first : sources).flatMap((user) =>
      piecesOf(user).map(({ destinations, protocol, ports }) => ({ user, destinations, protocol, ports })),
    );
  };
}

const compareSources = (a: string | null, b: string | null): number => compareText(a ?? '', b ?? '');

interface Piece extends Omit<Traffic, 'user'> {
  readonly slabs: readonly Slab[];
  readonly lowest: Network;
}

/** Users' regions are cut from nobody's and share slabs: each is rendered once, and so are pieces of the same slabs. */
function prepareRendering() {
  const [networks, keys] = [new Map<Slab, readonly Network[]>(), new Map<PortSet, string>()];
  const known = new Map<Slab, Piece>();
  const pieceOf = (slabs: readonly Slab[], protocol: Protocol, budget: TrafficBudget): Piece => {
    const first = slabs[0] as Slab;
    const same = known.get(first);
    if (same?.slabs.length === slabs.length && same.slabs.every((slab, i) => slab === slabs[i])) return same;
    const all = slabs.flatMap((slab) => networks.get(slab) ?? []);
    budget.parts -= all.length / 8;
    const ports = protocol === 'other' ? null : first.ports;
    const piece = { slabs, lowest: all[0] as Network, destinations: all.map(({ text }) => text), protocol, ports };
    if (same === undefined) known.set(first, piece);
    return piece;
  };
  return (regions: LaneRegions, budget: TrafficBudget): readonly Piece[] => {
    const pieces = protocols.flatMap((protocol) => {
      const byPorts = new Map<string, Slab[]>();
      for (const family of [4, 6] as const) {
        for (const slab of regions[getLane(family, protocol)] ?? []) {
          getOrMake(networks, slab, () => coverRange(family, slab.first, slab.last));
          const key = getOrMake(keys, slab.ports, () => formatPortsKey(slab.ports));
          getOrMake(byPorts, key, () => []).push(slab);
        }
      }
      return [...byPorts.values()].map((slabs) => pieceOf(slabs, protocol, budget));
    });
    // Of one lowest network they stay in the order of the protocols.
    return pieces.sort((a, b) => compareNetworks(a.lowest, b.lowest));
  };
}
