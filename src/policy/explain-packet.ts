import type { PortRange } from '../model/port-range.ts';
import type { Action } from '../model/rule.ts';
import { collectTraffic } from './collect-traffic.ts';
import { type Decision, decide, findRules } from './decide-packet.ts';
import { bestRank, eachPortRange, extendProfile, makeFlatProfile } from './port-profile.ts';
import { getLastPort, toPortSet } from './port-set.ts';
import { renderTraffic } from './render-traffic.ts';
import type { Ruled, RuleIndex } from './rule-index.ts';
import type { Traffic } from './traffic.ts';
import { compareDeciding, getRank, getVerdict, noRank, type Packet, type Portless, type Rank } from './verdict.ts';

/** A kind of rule, by what the packet filter looks at. */
export interface RuleKind {
  readonly action: Action;
  readonly scope: 'user' | 'global';
  readonly withPorts: boolean;
}

/** Explains one packet. `bounds` are the ports that the server accepts in a rule. */
export function explainPacket<T extends Ruled>(index: RuleIndex<T>, packet: Packet, bounds: PortRange) {
  const decision = decide(index, packet);
  return { ...decision, removals: removalsOf(decision), additions: additionsOf(decision, packet, bounds) };
}

/** The verdict by port, in maximal ranges that cover 0 to 65535; for `other` the one port 0. */
export function listPortVerdicts(index: RuleIndex<Ruled>, packet: Portless) {
  const profile = extendProfile(makeFlatProfile(bestRank.nothing), findRules(index, packet), bestRank, packet.protocol);
  const out: { low: number; high: number; readonly verdict: Action }[] = [];
  eachPortRange(profile, packet.protocol, (low, high, rank) => {
    const verdict = getVerdict(rank);
    const previous = out.at(-1);
    if (previous?.verdict === verdict) previous.high = high;
    else out.push({ low, high, verdict });
  });
  return out;
}

/** A port for a question that names none: the lowest from 1 on that no rule for this address and source names, else 1. */
export function findUnnamedPort<T extends Ruled>(index: RuleIndex<T>, packet: Portless): number {
  const named = toPortSet(findRules(index, packet).flatMap(({ rule }) => rule.ports ?? []));
  const reached = named.find(({ low, high }) => low <= 1 && high >= 1);
  const port = reached === undefined ? 1 : reached.high + 1;
  return port <= getLastPort(packet.protocol) ? port : 1;
}

/** Exactly the traffic that a rule decides, and what it would decide were it the only one; and the users whom both tell apart. */
export type RuleTraffic = Readonly<Record<'decides' | 'alone', readonly Traffic[]>> & Pick<RuleIndex<Ruled>, 'users'>;

/** Explains one rule of the index: for nobody's devices and those of every user with a rule. */
export function explainRule<T extends Ruled>(index: RuleIndex<T>, rule: T): RuleTraffic {
  const [own, earlier] = [0b01, 0b10];
  const bitOf = (item: T): number => (item === rule ? own : compareDeciding(item.rule, rule.rule) < 0 ? earlier : 0);
  const collected = collectTraffic<T, number, 'decides' | 'alone'>({
    index,
    within: [rule],
    nothing: 0,
    keyOf: bitOf,
    add: (outer, items) => items.reduce((bits, item) => bits | bitOf(item), outer),
    describe: (item) => String(bitOf(item)),
    classesOf: (bits) => (bits === own ? ['decides', 'alone'] : bits === (own | earlier) ? ['alone'] : []),
  });
  const trafficOf = renderTraffic(collected, index.users);
  return { decides: trafficOf('decides'), alone: trafficOf('alone'), users: index.users };
}

/** The fewest rules without which the verdict is the other one; null when no removal can do that. */
function removalsOf<T extends Ruled>({ verdict, rule, overridden }: Decision<T>): readonly T[] | null {
  if (rule === null) return null;
  const matching = [rule, ...overridden];
  const opposite = matching.findIndex((item) => item.rule.action !== verdict);
  if (opposite >= 0) return matching.slice(0, opposite);
  return verdict === 'drop' ? matching : null;
}

/** The kinds of rule for this packet that would turn the verdict, the least powerful first. */
function additionsOf({ verdict, rule }: Decision<Ruled>, { user, protocol, port }: Packet, bounds: PortRange) {
  const decided = rule === null ? noRank : getRank(rule.rule);
  const canNamePort = protocol !== 'other' && bounds.low <= port && port <= bounds.high;
  const stronger = Array.from({ length: decided }, (_, rank) => kindOf(rank as Rank)).reverse();
  return stronger.filter(
    ({ action, scope, withPorts }) =>
      action !== verdict && (scope === 'global' || user !== null) && (canNamePort || !withPorts),
  );
}

function kindOf(rank: Rank): RuleKind {
  return { action: rank % 2 === 0 ? 'accept' : 'drop', scope: rank < 4 ? 'user' : 'global', withPorts: rank % 4 < 2 };
}
