import { getOrMake, groupBy, keepFirst } from '../../model/group-by.ts';
import type { Place, Problem } from '../../model/problem.ts';
import { type LintCode, lintSeverities } from '../../model/problem-code.ts';
import type { DesiredRule } from '../../model/rule.ts';
import type { DesiredState } from '../../model/state.ts';
import { extendProfile, type Fold, getValueAt, makeFlatProfile, type PortProfile } from '../port-profile.ts';
import { findNodesReached, type LaneNode, type Ruled, type RuleIndex } from '../rule-index.ts';
import { compareDeciding, type Packet } from '../verdict.ts';

/** What a check says of one place, before its code gives it a severity. */
export interface Finding extends Omit<Problem, 'severity'> {
  readonly code: LintCode;
  readonly place: Place;
  readonly hint: string;
  /** Where what is found may well be meant. */
  readonly severity?: 'note';
}

export function quoteName({ name }: DesiredRule): string {
  return `\`${name}\``;
}

/** The findings as problems; those of one code at one line become one problem that says how many rules it holds for. */
export function toProblems(findings: readonly Finding[]): readonly Problem[] {
  const keyOf = ({ code, severity, place: { file, line } }: Finding): string =>
    `${code} ${severity ?? ''} ${line} ${file}`;
  const groups = groupBy(findings, keyOf);
  return [...groups.values()].flatMap(([first, ...others]) =>
    first === undefined ? [] : [problemOf(first, others.length)],
  );
}

function problemOf({ code, place, summary, hint, related, severity }: Finding, others: number): Problem {
  const more =
    others === 0 ? '' : ` The same holds for ${others} more ${others === 1 ? 'rule' : 'rules'} of this line.`;
  const base = { code, severity: severity ?? lintSeverities[code], summary: `${summary}${more}`, hint, place };
  return related === undefined || related.length === 0 ? base : { ...base, related };
}

export interface Linted {
  readonly desired: DesiredState;
  readonly rules: readonly DesiredRule[];
  readonly index: RuleIndex<DesiredRule>;
  readonly leaders: Leaders<DesiredRule>;
}

/** Users by id who have no name though others have: one finding for each, at the first rule. */
export function lintUsers({ rules, desired }: Linted): readonly Finding[] {
  if (desired.userNames.size === 0) return [];
  return firstPlaces(rules, desired.userNames).map(({ user, place }): Finding => {
    const summary = `User ${user} has a rule and no name, though other users have one.`;
    const hint = 'Add the user to a `kind: Users` manifest and write the name.';
    return { code: 'unlisted-user', place, summary, hint };
  });
}

/** Rules for users whom the server does not have: it would refuse them. Asked only when the server's users are known. */
export function findUnknownUsers(rules: readonly DesiredRule[], serverUsers: ReadonlySet<string>): readonly Problem[] {
  const findings = firstPlaces(rules, serverUsers).map(({ user, place }): Finding => {
    const summary = `The server has no user ${user}; it refuses rules for unknown users.`;
    return { code: 'unknown-user-id', place, summary, hint: 'Correct the id, or create the user first.' };
  });
  return toProblems(findings);
}

/** The users who have a rule of their own and are not among these, each with the place of the first rule. */
function firstPlaces(rules: readonly DesiredRule[], known: Pick<ReadonlySet<string>, 'has'>) {
  const places = rules.flatMap(({ rule, place }) => (rule.userId === null ? [] : [{ user: rule.userId, place }]));
  return keepFirst(places, ({ user }) => user).filter(({ user }) => !known.has(user));
}

/** Every rule of an index in the order in which they would decide, the one that decides on a packet, and the one that would without it. */
export type Leaders<T extends Ruled> = ReturnType<typeof findLeaders<T>>;

/** The keys of two rules, the lower one first. */
type Pair = readonly [number, number];

/** As `decide`, but asked very often: a network is looked at when first asked, and then found by port. */
export function findLeaders<T extends Ruled>(index: RuleIndex<T>) {
  const items: readonly T[] = [...index.scopes.values()].flat().sort((a, b) => compareDeciding(a.rule, b.rule));
  const keys = new Map(items.map((item, key) => [item, key]));
  const none = items.length;
  const keyOf = (item: T | undefined): number => (item === undefined ? none : (keys.get(item) ?? none));
  const fold: Fold<T, Pair> = {
    nothing: [none, none],
    keyOf,
    add: (outer, [first, second]) => firstTwo(outer, [keyOf(first), keyOf(second)]),
  };
  const known = new Map<LaneNode<T>, PortProfile<Pair>>();
  const profileOf = ({ items: own }: LaneNode<T>): PortProfile<Pair> => {
    const protocol = own.find(({ rule }) => rule.ports !== null)?.rule.ports?.type ?? 'other';
    return extendProfile(makeFlatProfile(fold.nothing), own, fold, protocol);
  };
  const keysAt = (node: LaneNode<T>, port: number): Pair => {
    const profile = getOrMake(known, node, () => profileOf(node));
    return getValueAt(profile, port);
  };
  const rulesOf = ([best, second]: Pair): readonly [T | null, T | null] => [items[best] ?? null, items[second] ?? null];
  return {
    /** Copies of one rule keep the index's order. */
    items,
    /** The item's position there; behind all others for none. */
    keyOf,
    /** The two rules of one network that come first at a port (of `other`: those without ports). */
    at: (node: LaneNode<T>, port: number) => rulesOf(keysAt(node, port)),
    /** Null where no rule is left. */
    of(packet: Packet) {
      const pairs = findNodesReached(index, packet).map((node) => keysAt(node, packet.port));
      return rulesOf(pairs.reduce(firstTwo, fold.nothing));
    },
  };
}

function firstTwo(a: Pair, b: Pair): Pair {
  return a[0] <= b[0] ? [a[0], Math.min(a[1], b[0])] : [b[0], Math.min(b[1], a[0])];
}
