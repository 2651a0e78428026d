import { contains, intersects, Network, readNetworks } from '../model/address.ts';
import { getOrMake, groupBy } from '../model/group-by.ts';
import { createTouches, intersectIntervals } from '../model/intervals.ts';
import type { PortRange } from '../model/port-range.ts';
import { formatCount } from '../model/printable.ts';
import { type Action, type DesiredRule, selectRulesAt } from '../model/rule.ts';
import type { Boundary, DesiredState, PolicyCase, Protocol } from '../model/state.ts';
import { listAllRules, listBoundaries } from '../model/state.ts';
import { decide, decideAmong } from './decide-packet.ts';
import { bestRank, eachPortRange, extendProfile, makeFlatProfile, type RankProfile } from './port-profile.ts';
import { touchesPorts } from './port-set.ts';
import { findNodesReaching, getLane, getLaneRules, indexRules, type Ruled, type RuleIndex } from './rule-index.ts';
import { findPacketInBoth } from './selection.ts';
import { sweep } from './sweep.ts';
import type { Traffic } from './traffic.ts';
import { getVerdict, type Packet } from './verdict.ts';

/** Why a case fails: one packet of it that gets the other verdict, and the rule to blame. */
export interface CaseFailure<T extends Ruled> {
  /** The first such packet, at a port that a rule could cover if there is one. */
  readonly packet: Packet;
  readonly verdict: Action;
  /** The rule that decides; null when none matches and the default, accept, applies. */
  readonly rule: T | null;
  /** Only ports fail that no rule can name on this server: 0 and 65535 (observed: recordings/rule_create_ports). */
  readonly edgePortsOnly: boolean;
}

/** How a case ended. `failure` is null when all of its traffic gets the expected verdict. */
export interface CaseResult<T extends Ruled> {
  readonly case: PolicyCase;
  readonly failure: CaseFailure<T> | null;
}

/** Looks at a rule, a case or a range of ports in one run, at most: some ten seconds. */
const mostLooks = 20_000_000;

/** The looks that are left, for all that share it. */
type Budget = Record<'looks', number>;

/**
 * Checks every case exactly. `any` means nobody and every user with a rule; `bounds`: ports that a rule can name.
 * Where the looks end no further case is checked: there are fewer results than cases. Results keep the order of the cases.
 * `staying`: they stand at a case's own time too.
 */
export function runPolicyTests<T extends Ruled>(
  cases: readonly PolicyCase[],
  rules: readonly T[],
  bounds: PortRange,
  { budget = { looks: mostLooks }, staying = [] }: { readonly budget?: Budget; readonly staying?: readonly T[] } = {},
): readonly CaseResult<T | DesiredRule>[] {
  const results = new Map<PolicyCase, CaseResult<T | DesiredRule>>();
  // An index is built once for a time, and only one is held.
  for (const same of groupBy(cases, ({ at }) => at?.time).values()) {
    const at = same[0]?.at;
    const then: readonly (T | DesiredRule)[] = at === undefined ? [] : selectRulesAt(at.rules, at.time);
    const those = at === undefined ? rules : [...then, ...staying];
    budget.looks -= 10 * Math.max(those.length, (at?.rules.length ?? 0) / 10);
    if (budget.looks < 0) break;
    const index = indexRules(those);
    for (const one of same) {
      const { inner, edge } = findWrong(one, index, bounds, budget);
      if (budget.looks < 0) break;
      const packet = inner ?? edge;
      const failure = packet ? { packet, ...decide(index, packet), edgePortsOnly: inner === undefined } : null;
      results.set(one, { case: one, failure });
    }
  }
  return cases.flatMap((one) => results.get(one) ?? []);
}

/** That the last cases were not checked, where there are fewer results than cases. */
export function tellUnchecked(results: readonly unknown[], { length }: readonly PolicyCase[]) {
  const left = length - results.length;
  if (left === 0) return [];
  const summary = `The policy tests take too long: ${formatCount(left)} of ${formatCount(length)} cases were not run.`;
  const hint =
    'Write fewer cases with `user: any`, smaller destinations, or fewer times in `at`: each looks at every rule.';
  return [{ code: 'too-many-cases', severity: 'error', summary, hint } as const];
}

/** Cases that hold now and fail once a rule begins or ends (`turn`: the first); `until`: from when on nobody looked, null: never. */
export function findLaterFailures(state: DesiredState, bounds: PortRange) {
  const { at = Number.POSITIVE_INFINITY, tests } = state;
  const turns = [...groupBy(listBoundaries(state, at), (one) => one.at)].sort(([a], [b]) => a - b);
  const timeless = turns.length === 0 ? [] : tests.filter((one) => one.at === undefined);
  const budget = { looks: mostLooks / 4 };
  const now = runPolicyTests(timeless, state.rules, bounds, { budget });
  const holding = new Map(now.flatMap(({ case: one, failure }) => (failure === null ? [[one.place, one]] : [])));
  const failures: (CaseResult<DesiredRule> & { readonly turn: Boundary })[] = [];
  const all = listAllRules(state);
  for (const [time, turning] of turns) {
    if (holding.size === 0 && budget.looks >= 0) break;
    budget.looks -= all.length + holding.size * turning.length;
    if (budget.looks < 0) return { failures, until: time };
    // Elsewhere no verdict changes.
    const areas = new Map(turning.map(({ rule: { rule } }) => [rule.destination.text, rule.destination]));
    const parts = [...areas.values()].flatMap((area) => [...holding.values()].flatMap((one) => narrow(one, area)));
    const touches = createTouches(parts.map(({ destination }) => destination));
    const rules = selectRulesAt(all, time).filter(({ rule }) => touches(rule.destination));
    const turned = turning.map((turn) => ({ rule: turn.rule.rule, turn }));
    for (const { case: one, failure } of runPolicyTests(parts, rules, bounds, { budget })) {
      // The verdict turned: the first of these by rank decides now, or it decided before and would again.
      const first = failure && decideAmong(turned, failure.packet).rule;
      if (first && holding.delete(one.place)) failures.push({ case: one, failure, turn: first.turn });
    }
    if (budget.looks < 0) return { failures, until: time };
  }
  return { failures, until: null };
}

/** What of a case is about this network. */
function narrow(one: PolicyCase, area: Network): readonly PolicyCase[] {
  if (!intersects(one.destination, area)) return [];
  return [contains(one.destination, area) ? { ...one, destination: area } : one];
}

/**
 * Of each case that must always hold, in order, a packet for which it does not in some state between (null: none). A case that holds before
 * and after fails in between exactly when the exposure meets it; one that fails before is not held against the plan, which may mend it.
 * `users`: all that a rule names before or after. Where the looks end no further case is checked.
 */
export function checkLasting(
  cases: readonly PolicyCase[],
  exposure: readonly { readonly direction: 'opened' | 'cut_off'; readonly traffic: readonly Traffic[] }[],
  users: ReadonlySet<string>,
  budget: Budget = { looks: mostLooks },
) {
  const sides = new Map<string, ReturnType<typeof gather>>();
  const gather = (direction: string) => {
    const traffic = exposure.flatMap((item) => (item.direction === direction ? item.traffic : []));
    const networks = traffic.flatMap(({ destinations }) => readNetworks(destinations));
    return { traffic, touches: createTouches(networks), looks: 10 * traffic.length + networks.length };
  };
  const results: { readonly case: PolicyCase; readonly packet: Packet | null; readonly verdict: Action }[] = [];
  for (const one of cases) {
    const [direction, verdict] =
      one.expect === 'drop' ? (['opened', 'accept'] as const) : (['cut_off', 'drop'] as const);
    const { traffic, touches, looks } = getOrMake(sides, direction, () => gather(direction));
    const isMet = touches(one.destination);
    budget.looks -= isMet ? looks : 1;
    if (budget.looks < 0) break;
    results.push({ case: one, packet: isMet ? findPacketInBoth({ traffic, users }, one) : null, verdict });
  }
  return results;
}

/** The first packets that get the other verdict: one at a port that a rule can name, which ends the search, and one at any other. */
function findWrong<T extends Ruled>(one: PolicyCase, index: RuleIndex<T>, bounds: PortRange, budget: Budget) {
  const found: Partial<Record<'inner' | 'edge', Packet>> = {};
  const extend = layersFor<T>(one, budget);
  for (const { user, protocol, areas } of listSources(one, index, budget)) {
    const nameable = protocol === 'other' ? { low: 0, high: 0 } : bounds;
    const visit = (first: bigint, _last: bigint, profile: RankProfile): void => {
      budget.looks -= profile.starts.length;
      const port = wrongPort(one, profile, protocol, nameable);
      if (port === null) return;
      const address = new Network(one.destination.family, first);
      found[isNameable(port, nameable) ? 'inner' : 'edge'] ??= { user, address, protocol, port };
    };
    const lane = getLane(one.destination.family, protocol);
    const rules = [...new Set([user, null])].map((scope) => getLaneRules(index, scope, lane));
    for (const area of areas) {
      sweep<T, RankProfile>(rules, area, { empty: unreached, extend: extend(protocol), visit });
      if (found.inner !== undefined || budget.looks < 0) return found;
    }
  }
  return found;
}

/** Whose traffic is looked at, and where: beyond a user's own rules her devices are treated as nobody's, which come first. */
function* listSources<T extends Ruled>(one: PolicyCase, index: RuleIndex<T>, budget: Budget) {
  const { destination, protocols } = one;
  const user = one.user === 'any' ? null : one.user;
  for (const protocol of protocols) yield { user, protocol, areas: [destination] };
  for (const protocol of one.user === 'any' ? protocols : []) {
    const lane = getLane(destination.family, protocol);
    const bearing = findNodesReaching(index.ownLane(lane), destination).flatMap(({ items }) => items);
    budget.looks -= bearing.length;
    for (const owner of [...new Set(bearing.map(({ rule }) => rule.userId))].sort()) {
      const { named } = getLaneRules(index, owner, lane);
      yield { user: owner, protocol, areas: intersectIntervals([destination], named) };
    }
  }
}

const unreached = makeFlatProfile(bestRank.nothing);

/** Lays on the rules of a network, only those that bear on the case, and those of the widest networks once for all users. */
function layersFor<T extends Ruled>(one: PolicyCase, budget: Budget) {
  const outermost = new Map<readonly T[], RankProfile>();
  return (protocol: Protocol) =>
    (outer: RankProfile, items: readonly T[]): RankProfile => {
      const lower = (): RankProfile => {
        budget.looks -= items.length + outer.starts.length;
        if (budget.looks < 0) return outer;
        const bearing = items.filter(({ rule: { ports } }) => ports === null || touchesPorts([one.ports], ports));
        return extendProfile(outer, bearing, bestRank, protocol);
      };
      return outer === unreached ? getOrMake(outermost, items, lower) : lower();
    };
}

/** The lowest port of the case with the wrong verdict, one that no rule can name only when no other is wrong. */
function wrongPort(one: PolicyCase, profile: RankProfile, protocol: Protocol, nameable: PortRange): number | null {
  const asked = protocol === 'other' ? { low: 0, high: 0 } : one.ports;
  let wrong: number | null = null;
  eachPortRange(profile, protocol, (low, high, rank) => {
    const from = Math.max(low, asked.low);
    const to = Math.min(high, asked.high);
    if (from > to || getVerdict(rank) === one.expect || (wrong !== null && isNameable(wrong, nameable))) return;
    const inner = Math.max(from, nameable.low);
    if (inner <= Math.min(to, nameable.high)) wrong = inner;
    else wrong ??= from;
  });
  return wrong;
}

function isNameable(port: number, { low, high }: PortRange): boolean {
  return low <= port && port <= high;
}
