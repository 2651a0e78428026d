import { contains, intersects, type Network, parseNetwork, readNetworks } from './address.ts';
import type { DesiredConfiguration, LiveConfiguration } from './configuration.ts';
import type { PortRange } from './port-range.ts';
import type { Place } from './problem.ts';
import { type Action, type DesiredRule, hasTimes, type LiveRule, type Rule, type RuleNotes } from './rule.ts';

/** What the manifests ask for, canonical and complete. Rules are sorted with `compareRules`, then by name. */
export interface DesiredState {
  /** The rules in force at `at`. */
  readonly rules: readonly DesiredRule[];
  /** The time (ms since 1970) for which this is the state; absent: no rule has a time. */
  readonly at?: number;
  /** Rules that ended before `at`, in the order of their ends, and those that begin later. */
  readonly expired?: readonly DesiredRule[];
  readonly upcoming?: readonly DesiredRule[];
  readonly configuration: DesiredConfiguration | null;
  /** Names of users by UUID, for display; from `kind: Users` and from e-mail addresses that were resolved. */
  readonly userNames: ReadonlyMap<string, string>;
  /** UUIDs by name: of a user with several in `kind: Users`, by each. */
  readonly userIds?: ReadonlyMap<string, string>;
  /** Members (UUIDs) by group, for display. */
  readonly groups?: ReadonlyMap<string, ReadonlySet<string>>;
  readonly tests: readonly PolicyCase[];
  /** SHA-256 over the canonical manifests, hex: the digest's and the revision's part of this state. */
  readonly digest: string;
}

/** The rules of a state whatever their times. */
export function listAllRules({ rules, expired = [], upcoming = [] }: DesiredState): readonly DesiredRule[] {
  return [...rules, ...expired, ...upcoming];
}

/** What the API reported in this pass. `configuration` is null when only rules were asked for. */
export interface LiveState {
  readonly rules: readonly LiveRule[];
  readonly configuration: LiveConfiguration | null;
}

export const protocols = ['tcp', 'udp', 'other'] as const;
export type Protocol = (typeof protocols)[number];

/** Every port there is, whatever bounds a server sets for those of rules. */
export const everyPort: PortRange = { low: 0, high: 65_535 };

/** One case of a PolicyTest: all of this traffic must get the expected verdict. */
export interface PolicyCase {
  readonly name: string;
  readonly place: Place;
  /** null: a device of nobody; `any`: nobody and every user named in a rule; else a user's UUID. */
  readonly user: string | 'any' | null;
  readonly destination: Network;
  readonly protocols: readonly Protocol[];
  readonly ports: PortRange;
  readonly expect: Action;
  /** Must hold in every intermediate state of a plan too. */
  readonly always: boolean;
  /** Those of these rules are meant that are in force at another time (ms since 1970). */
  readonly at?: { readonly time: number; readonly rules: readonly DesiredRule[] };
}

/** The part of the live state that this repository is responsible for. Undefined members do not restrict. */
export interface Scope {
  readonly rules: boolean;
  readonly configuration: boolean;
  /** Only rules of these users (UUIDs; null stands for global rules). */
  readonly users?: ReadonlySet<string | null>;
  /** Only rules whose destination lies inside one of these networks. */
  readonly networks?: readonly Network[];
}

/** A time (ms since 1970) at which a rule begins or ends. */
export interface Boundary {
  readonly rule: DesiredRule;
  readonly what: 'begins' | 'ends';
  readonly at: number;
}

/** The times after one, up to another, at which rules begin or end; no order. */
export function listBoundaries(
  { rules, upcoming = [] }: Pick<DesiredState, 'rules' | 'upcoming'>,
  after: number,
  until = Number.POSITIVE_INFINITY,
): readonly Boundary[] {
  return [...rules.filter(hasTimes), ...upcoming].flatMap((rule): readonly Boundary[] => {
    const { notBefore = Number.NaN, expires = Number.NaN } = rule;
    const both = [{ rule, what: 'begins', at: notBefore } as const, { rule, what: 'ends', at: expires } as const];
    return both.filter(({ at }) => at > after && at <= until);
  });
}

/** The next time after `now` at which a rule begins or ends; infinite: none does. */
export function findNextBoundary(state: Pick<DesiredState, 'rules' | 'upcoming'>, now: number): number {
  return listBoundaries(state, now).reduce((next, { at }) => Math.min(next, at), Number.POSITIVE_INFINITY);
}

/** A note that rules must have which concern the scope. */
export interface RequiredNote {
  readonly note: keyof RuleNotes;
  readonly scope: Scope;
}

/** A scope without restriction. */
export const wholeScope: Scope = { rules: true, configuration: true };

/** Whether this repository is responsible for the rule; of a user who was not looked up yet, as far as can be told. */
export function isInScope(rule: Rule, scope: Scope): boolean {
  if (!scope.rules) return false;
  if (scope.users?.has(rule.userId) === false && rule.userId?.includes('@') !== true) return false;
  return scope.networks === undefined || scope.networks.some((network) => contains(network, rule.destination));
}

/** Whether the rule decides about traffic of the scope's users, as a global one does, to some address of its networks. */
export function concerns({ destination, userId }: Rule, { users, networks }: Scope): boolean {
  if (userId !== null && users?.has(userId) === false) return false;
  return networks === undefined || networks.some((network) => intersects(network, destination));
}

/** A scope as operators write it; what is left out does not restrict. */
export interface WrittenScope {
  readonly rules?: boolean | undefined;
  readonly configuration?: boolean | undefined;
  /** UUIDs, or `global` for rules of nobody. */
  readonly users?: readonly string[] | undefined;
  readonly networks?: readonly string[] | undefined;
}

/** What to write instead of the text of a network of a scope; null: nothing is wrong with it. */
export function findNetworkFault(text: string): string | null {
  const parsed = parseNetwork(text);
  if (!parsed.ok) return `write an IP address or a network in CIDR notation, not "${text}"`;
  // Host bits may be a slip in the address or in the prefix length, and rules of the wider of the two would be deleted.
  const { network, hostBits } = parsed.value;
  return hostBits ? `write a network without host bits (${network.text}), or the address alone, not "${text}"` : null;
}

/** The scope; no network of it has a fault. */
export function readScope({ rules, configuration, users, networks }: WrittenScope): Scope {
  return {
    rules: rules ?? wholeScope.rules,
    configuration: configuration ?? wholeScope.configuration,
    ...(users && { users: new Set(users.map((user) => (user === 'global' ? null : user.toLowerCase()))) }),
    ...(networks && { networks: readNetworks(networks) }),
  };
}
