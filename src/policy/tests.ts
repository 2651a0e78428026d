import { contains, intersects, Network } from '../model/address.ts';
import { getOrMake, groupBy } from '../model/group-by.ts';
import { createTouches, intersectIntervals } from '../model/intervals.ts';
import type { PortRange } from '../model/port-range.ts';
import { type Action, type DesiredRule, selectRulesAt } from '../model/rule.ts';
import type { Boundary, DesiredState, PolicyCase, Protocol } from '../model/state.ts';
import { listAllRules, listBoundaries } from '../model/state.ts';
import { decide } from './decide-packet.ts';
import { bestRank, eachPortRange, extendProfile, makeFlatProfile, type RankProfile } from './port-profile.ts';
import { touchesPorts } from './port-set.ts';
import { getLane, getLaneRules, indexRules, type Ruled, type RuleIndex } from './rule-index.ts';
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

/** Checks every case exactly, in order. `any` means nobody and every user with a rule; `bounds`: ports that a rule can name. */
export function runPolicyTests<T extends Ruled>(
  cases: readonly PolicyCase[],
  rules: readonly T[],
  bounds: PortRange,
): readonly CaseResult<T | DesiredRule>[] {
  const known = new Map<readonly Ruled[], RuleIndex<T | DesiredRule>>();
  return cases.map((one) => {
    const those: readonly (T | DesiredRule)[] = one.at?.rules ?? rules;
    const index = getOrMake(known, those, () => indexRules(those));
    return { case: one, failure: failureOf(one, index, bounds) };
  });
}

/** Rules and cases looked at for all times at which a rule begins or ends, at most. */
const mostLooks = 5_000_000;

/** Cases that hold now and fail once a rule begins or ends (`turn`: the first); `until`: from when on nobody looked, null: never. */
export function findLaterFailures(state: DesiredState, bounds: PortRange) {
  const { at = Number.POSITIVE_INFINITY, tests } = state;
  const turns = [...groupBy(listBoundaries(state, at), (one) => one.at)].sort(([a], [b]) => a - b);
  const timeless = turns.length === 0 ? [] : tests.filter((one) => one.at === undefined);
  const now = runPolicyTests(timeless, state.rules, bounds).filter(({ failure }) => failure === null);
  const holding = new Map(now.map(({ case: one }) => [one.place, one]));
  const failures: (CaseResult<DesiredRule> & { readonly turn: Boundary })[] = [];
  const all = listAllRules(state);
  let looks = 0;
  for (const [time, turning] of turns) {
    if (holding.size === 0) break;
    // Elsewhere no verdict changes.
    const areas = turning.map(({ rule }) => rule.rule.destination);
    const parts = areas.flatMap((area) => [...holding.values()].flatMap((one) => narrow(one, area)));
    const touches = createTouches(parts.map(({ destination }) => destination));
    const rules = selectRulesAt(all, time).filter(({ rule }) => touches(rule.destination));
    looks += all.length + holding.size * turning.length + 10 * rules.length;
    if (looks > mostLooks) return { failures, until: time };
    for (const { case: one, failure } of runPolicyTests(parts, rules, bounds)) {
      const turn = turning.find(({ rule }) => failure && contains(rule.rule.destination, failure.packet.address));
      if (turn !== undefined && holding.delete(one.place)) failures.push({ case: one, failure, turn });
    }
  }
  return { failures, until: null };
}

/** What of a case is about this network. */
function narrow(one: PolicyCase, area: Network): readonly PolicyCase[] {
  if (!intersects(one.destination, area)) return [];
  return [contains(one.destination, area) ? { ...one, destination: area } : one];
}

/** What a plan exposes on the way, as far as it matters here. */
interface Exposed {
  readonly direction: 'opened' | 'cut_off';
  readonly traffic: readonly Traffic[];
}

/**
 * The cases that must always hold and do not in some state between, at most one failure a case. A case that holds before and after
 * fails in between exactly when the exposure meets it; one that fails before is not held against the plan, which may mend it.
 * `users`: all that a rule names before or after.
 */
export function findAlwaysFailures(
  cases: readonly PolicyCase[],
  exposure: readonly Exposed[],
  users: ReadonlySet<string>,
) {
  return cases.flatMap((one) => {
    if (!one.always || one.at !== undefined) return [];
    const [direction, verdict] =
      one.expect === 'drop' ? (['opened', 'accept'] as const) : (['cut_off', 'drop'] as const);
    for (const { traffic } of exposure.filter((item) => item.direction === direction)) {
      const packet = findPacketInBoth({ traffic, users }, one);
      if (packet !== null) return [{ case: one, packet, verdict }];
    }
    return [];
  });
}

function failureOf<T extends Ruled>(one: PolicyCase, index: RuleIndex<T>, bounds: PortRange): CaseFailure<T> | null {
  const { inner, edge } = findWrong(one, index, bounds);
  const packet = inner ?? edge;
  if (packet === null) return null;
  const { verdict, rule } = decide(index, packet);
  return { packet, verdict, rule, edgePortsOnly: inner === null };
}

/** The first packets that get the other verdict: one at a port that a rule can name, which ends the search, and one at any other. */
function findWrong<T extends Ruled>(one: PolicyCase, index: RuleIndex<T>, bounds: PortRange) {
  const { destination } = one;
  const users = one.user === 'any' ? [null, ...index.users] : [one.user];
  const ways = new Map(one.protocols.map((protocol) => [protocol, layersFor<T>(one, protocol)]));
  const found: Record<'inner' | 'edge', Packet | null> = { inner: null, edge: null };
  const visitFor =
    (user: string | null, protocol: Protocol) => (first: bigint, _last: bigint, profile: RankProfile) => {
      const nameable = protocol === 'other' ? { low: 0, high: 0 } : bounds;
      const port = wrongPort(one, profile, protocol, nameable);
      if (port === null) return true;
      const address = new Network(destination.family, first);
      const kind = isNameable(port, nameable) ? 'inner' : 'edge';
      found[kind] ??= { user, address, protocol, port };
      return kind === 'edge';
    };
  for (const user of users) {
    for (const [protocol, extend] of ways) {
      const lane = getLane(destination.family, protocol);
      const own = getLaneRules(index, user, lane);
      const rules = user === null ? [own] : [own, getLaneRules(index, null, lane)];
      // Beyond a user's own rules her devices are treated as nobody's, which were looked at first.
      const ownOnly = one.user === 'any' && user !== null;
      const visit = visitFor(user, protocol);
      for (const area of ownOnly ? intersectIntervals([destination], own.named) : [destination]) {
        sweep<T, RankProfile>(rules, area, { empty: unreached, extend, visit });
        if (found.inner !== null) return found;
      }
    }
  }
  return found;
}

const unreached = makeFlatProfile(bestRank.nothing);

/** Lays on the rules of a network, only those that bear on the case, and those of the widest networks once for all users. */
function layersFor<T extends Ruled>(one: PolicyCase, protocol: Protocol) {
  const outermost = new Map<readonly T[], RankProfile>();
  const lower = (outer: RankProfile, items: readonly T[]): RankProfile => {
    const bearing = items.filter(({ rule: { ports } }) => ports === null || touchesPorts([one.ports], ports));
    return extendProfile(outer, bearing, bestRank, protocol);
  };
  return (outer: RankProfile, items: readonly T[]): RankProfile => {
    if (outer !== unreached) return lower(outer, items);
    return getOrMake(outermost, items, () => lower(outer, items));
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
