import { getWidth, makeNetwork } from '../model/address.ts';
import { getOrMake } from '../model/group-by.ts';
import { intersectIntervals } from '../model/intervals.ts';
import type { PortBounds } from '../model/port-range.ts';
import type { Action, DesiredRule } from '../model/rule.ts';
import type { PolicyCase, Protocol } from '../model/state.ts';
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

/**
 * Checks every case exactly, in order, one with a time of its own against the rules of then. `any` means nobody and every user with a rule;
 * `bounds`: ports that a rule can name.
 */
export function runPolicyTests<T extends Ruled>(
  cases: readonly PolicyCase[],
  rules: readonly T[],
  bounds: PortBounds,
): readonly CaseResult<T | DesiredRule>[] {
  const known = new Map<readonly Ruled[], RuleIndex<T | DesiredRule>>();
  return cases.map((one) => {
    const those: readonly (T | DesiredRule)[] = one.at?.rules ?? rules;
    const index = getOrMake(known, those, () => indexRules(those));
    return { case: one, failure: failureOf(one, { index, bounds }) };
  });
}

/** A case with `always: true` whose traffic gets the other verdict for a while. */
export interface AlwaysFailure {
  readonly case: PolicyCase;
  readonly packet: Packet;
  readonly verdict: Action;
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
): readonly AlwaysFailure[] {
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

interface Checked<T extends Ruled> {
  readonly index: RuleIndex<T>;
  readonly bounds: PortBounds;
}

function failureOf<T extends Ruled>(one: PolicyCase, checked: Checked<T>): CaseFailure<T> | null {
  const users = one.user === 'any' ? [null, ...checked.index.users] : [one.user];
  const ways = new Map(one.protocols.map((protocol) => [protocol, layersFor<T>(one, protocol)]));
  let edge: CaseFailure<T> | null = null;
  for (const user of users) {
    for (const [protocol, extend] of ways) {
      // Beyond a user's own rules her devices are treated as nobody's, which were looked at first.
      const ownOnly = one.user === 'any' && user !== null;
      const failure = wrongPacket(one, checked, { user, protocol, ownOnly, extend });
      if (failure !== null && !failure.edgePortsOnly) return failure;
      edge ??= failure;
    }
  }
  return edge;
}

interface Source<T extends Ruled> {
  readonly user: string | null;
  readonly protocol: Protocol;
  /** Look only at addresses that the user's own rules name. */
  readonly ownOnly: boolean;
  /** The deciding rank by port one network further in. */
  readonly extend: (outer: RankProfile, items: readonly T[]) => RankProfile;
}

const unreached = makeFlatProfile(bestRank.nothing);

/** Lays rules on, only those that bear on the case, and those of the widest networks once for all users. */
function layersFor<T extends Ruled>(one: PolicyCase, protocol: Protocol): Source<T>['extend'] {
  const outermost = new Map<readonly T[], RankProfile>();
  const lower = (outer: RankProfile, items: readonly T[]): RankProfile => {
    const bearing = items.filter(({ rule: { ports } }) => ports === null || touchesPorts([one.ports], ports));
    return extendProfile(outer, bearing, bestRank, protocol);
  };
  return (outer, items) => {
    if (outer !== unreached) return lower(outer, items);
    return getOrMake(outermost, items, () => lower(outer, items));
  };
}

function wrongPacket<T extends Ruled>(one: PolicyCase, checked: Checked<T>, source: Source<T>): CaseFailure<T> | null {
  const { index, bounds } = checked;
  const { family } = one.destination;
  const { user, protocol } = source;
  const lane = getLane(family, protocol);
  const own = getLaneRules(index, user, lane);
  const rules = user === null ? [own] : [own, getLaneRules(index, null, lane)];
  const found: { inner: Packet | null; edge: Packet | null } = { inner: null, edge: null };
  for (const area of source.ownOnly ? intersectIntervals([one.destination], own.named) : [one.destination]) {
    sweep<T, RankProfile>(rules, area, {
      empty: unreached,
      extend: source.extend,
      visit: (first, _last, profile) => {
        const wrong = wrongPort(one, profile, { protocol, bounds });
        if (wrong === null) return true;
        const packet = { user, address: makeNetwork(family, first, getWidth(family)), protocol, port: wrong.port };
        found[wrong.kind] ??= packet;
        return wrong.kind === 'edge';
      },
    });
    if (found.inner !== null) break;
  }
  const packet = found.inner ?? found.edge;
  if (packet === null) return null;
  const { verdict, rule } = decide(index, packet);
  return { packet, verdict, rule, edgePortsOnly: found.inner === null };
}

interface WrongPort {
  readonly port: number;
  /** `edge`: no rule can name the port. */
  readonly kind: 'inner' | 'edge';
}

/** The lowest port of the case with the wrong verdict, an edge port only when no other is wrong. */
function wrongPort(
  one: PolicyCase,
  profile: RankProfile,
  { protocol, bounds }: { readonly protocol: Protocol; readonly bounds: PortBounds },
): WrongPort | null {
  const asked = protocol === 'other' ? { low: 0, high: 0 } : one.ports;
  let wrong: WrongPort | null = null;
  eachPortRange(profile, protocol, (low, high, rank) => {
    const from = Math.max(low, asked.low);
    const to = Math.min(high, asked.high);
    if (from > to || wrong?.kind === 'inner' || getVerdict(rank) === one.expect) return;
    const inner = protocol === 'other' ? 0 : Math.max(from, bounds.min);
    if (protocol === 'other' || inner <= Math.min(to, bounds.max)) wrong = { port: inner, kind: 'inner' };
    else wrong ??= { port: from, kind: 'edge' };
  });
  return wrong;
}
