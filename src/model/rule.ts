import { compareNetworks, contains, intersects, type Network } from './address.ts';
import { groupBy } from './group-by.ts';
import { formatPortRange, type Ports, portsIntersect } from './port-range.ts';
import { compareText, type Place } from './problem.ts';
import { omitUndefined } from './result.ts';

export type Action = 'accept' | 'drop';

/** A firewall rule in canonical form. `userId` is a lower-case UUID, or null for a global rule. */
export interface Rule {
  readonly action: Action;
  readonly destination: Network;
  readonly ports: Ports | null;
  readonly userId: string | null;
}

/** What a manifest says of a rule beside its fields; never sent to the server. */
export interface RuleNotes {
  /** Who answers for it, and where it was asked for. */
  readonly owner?: string;
  readonly ticket?: string;
  /** It is desired from `notBefore` until `expires`, in ms since 1970. */
  readonly notBefore?: number;
  readonly expires?: number;
}

/** The notes alone; none where none is written. */
export function pickNotes({ owner, ticket, notBefore, expires }: RuleNotes): RuleNotes {
  if ((owner ?? ticket ?? notBefore ?? expires) === undefined) return {};
  return omitUndefined({ owner, ticket, notBefore, expires });
}

export function hasTimes({ notBefore, expires }: RuleNotes): boolean {
  return notBefore !== undefined || expires !== undefined;
}

/** Whether a rule with these times is desired at a time: from the first instant on, at the second no more. */
export function isDesiredAt({ notBefore, expires }: RuleNotes, time: number): boolean {
  return (notBefore ?? Number.NEGATIVE_INFINITY) <= time && time < (expires ?? Number.POSITIVE_INFINITY);
}

/** The rules that are in force at a time. */
export function selectRulesAt(rules: readonly DesiredRule[], time: number): readonly DesiredRule[] {
  return rules.some(hasTimes) ? rules.filter((rule) => isDesiredAt(rule, time)) : rules;
}

/** A rule that a manifest asks for. `name` is unique over all manifests; an expanded one is `SET/RULE/…`. */
export interface DesiredRule extends RuleNotes {
  readonly name: string;
  readonly rule: Rule;
  readonly place: Place;
  /** Where rules with the same content follow it without a gap: when the last of them ends (infinite: never). */
  readonly staysUntil?: number;
}

/** A rule that the API listed in this pass. `destinationText` is the stored spelling, host bits and all. */
export interface LiveRule {
  readonly id: string;
  readonly rule: Rule;
  readonly destinationText: string;
  readonly insertedAt: string;
  readonly updatedAt: string;
  /** Names of fields that are not read here; absent where there are none. */
  readonly unknownFields?: readonly string[];
}

/** Whether the rule was changed in place: the packet filter may hold something else than the API shows (docs/reference/server.md). */
export function isModifiedInPlace(live: LiveRule): boolean {
  return live.insertedAt !== live.updatedAt;
}

interface RuleField<R> {
  /** Its place in the canonical order of rules, from 0. */
  readonly sorts: number;
  /** Zero exactly for values that mean the same to the server. */
  readonly compare: (a: R, b: R) => number;
  /** Its part of the rule's key; empty when the key can do without. */
  readonly key: (rule: R) => string;
  /** The fields of the API that hold it, each with its value. */
  readonly wire: Readonly<Record<string, (rule: R) => string | null>>;
}

/** The one table of a rule's fields, in the order of keys and outputs: identity, order, comparison and what is sent follow. */
const ruleFields = {
  action: {
    sorts: 3,
    compare: (a, b) => compareText(a.action, b.action),
    key: ({ action }) => action,
    wire: { action: ({ action }) => action },
  },
  destination: {
    sorts: 1,
    compare: (a, b) => compareNetworks(a.destination, b.destination),
    key: ({ destination }) => destination.text,
    wire: { destination: ({ destination }) => destination.text },
  },
  ports: {
    sorts: 2,
    compare: (a, b) => comparePorts(a.ports, b.ports),
    key: ({ ports }) => (ports === null ? '' : `${ports.type} ${ports.low}-${ports.high}`),
    wire: {
      port_range: ({ ports }) => (ports === null ? null : formatPortRange(ports)),
      port_type: ({ ports }) => (ports === null ? null : ports.type),
    },
  },
  userId: {
    sorts: 0,
    compare: (a, b) => (a.userId === b.userId ? 0 : compareText(a.userId ?? '', b.userId ?? '')),
    key: ({ userId }) => userId ?? '*',
    wire: { user_id: ({ userId }) => userId },
  },
} as const satisfies { readonly [F in keyof Rule]: RuleField<Rule> };

const fieldsInOrder: readonly RuleField<Rule>[] = Object.values(ruleFields);
const fieldsAsSorted = fieldsInOrder.toSorted((a, b) => a.sorts - b.sorts);

/** The writable fields as the API spells them. */
export interface WireRule {
  readonly action: Action;
  readonly destination: string;
  readonly port_range: string | null;
  readonly port_type: string | null;
  readonly user_id: string | null;
}

/** The writable fields by the API's names, in the order of every output, each with what reads it from a rule. */
export const wireFields = fieldsInOrder.flatMap(({ wire }) =>
  Object.entries(wire).map(([name, read]) => ({ name, read })),
) as readonly { readonly name: keyof WireRule; readonly read: (rule: Rule) => string | null }[];

export function toWire(rule: Rule): WireRule {
  const wire: Record<string, string | null> = {};
  for (const { name, read } of wireFields) wire[name] = read(rule);
  return wire as unknown as WireRule;
}

/** The rule's identity: equal exactly for rules that mean the same to the server, whatever their host bits. */
export function formatRuleKey(rule: Rule): string {
  let text = '';
  for (const field of fieldsInOrder) {
    const part = field.key(rule);
    if (part !== '') text += text === '' ? part : ` ${part}`;
  }
  return text;
}

export function listKeys(rules: readonly { readonly rule: Rule }[]): ReadonlySet<string> {
  return new Set(rules.map(({ rule }) => formatRuleKey(rule)));
}

/** Total order on canonical rules: user (global first), destination, ports, action. Zero exactly for equal rules. */
export function compareRules(a: Rule, b: Rule): number {
  for (const field of fieldsAsSorted) {
    const order = field.compare(a, b);
    if (order !== 0) return order;
  }
  return 0;
}

/** How one list of rules became another: those of both by name, content and times, and the rest of either. The same object is cheap. */
export function findDifferences(before: readonly DesiredRule[], after: readonly DesiredRule[]) {
  const moved = before.filter((one, at) => one !== after[at]);
  const left = new Map(moved.map((one) => [one.name, one]));
  const [kept, changed]: [DesiredRule[], DesiredRule[]] = [[], []];
  for (const [at, one] of after.entries()) {
    const former = one === before[at] ? undefined : left.get(one.name);
    const isSame = former?.notBefore === one.notBefore && former?.expires === one.expires;
    if (one === before[at] || (former && isSame && compareRules(former.rule, one.rule) === 0 && left.delete(one.name)))
      kept.push(one);
    else changed.push(one);
  }
  return { kept, left: [...left.values()], changed };
}

/** In the canonical order of their rules, then by `tie`. Users come first in it, and each user's rules are sorted alone: twice as fast. */
export function sortByRule<T>(items: readonly T[], ruleOf: (item: T) => Rule, tie: (a: T, b: T) => number): T[] {
  const users = [...groupBy(items, (item) => ruleOf(item).userId ?? '')].sort(([a], [b]) => compareText(a, b));
  return users.flatMap(([, mine]) =>
    mine.toSorted((a, b) => {
      const [one, other] = [ruleOf(a), ruleOf(b)];
      return compareNetworks(one.destination, other.destination) || compareRules(one, other) || tie(a, b);
    }),
  );
}

/** Whether one rule decides alike about all that another decides about, for the same user or for everybody. */
export function covers(outer: Rule, { action, userId, destination, ports }: Rule): boolean {
  if (outer.action !== action || outer.userId !== userId || !contains(outer.destination, destination)) return false;
  // A rule with ports comes before one without.
  if (outer.ports === null) return ports === null;
  return ports?.type === outer.ports.type && ports.low >= outer.ports.low && ports.high <= outer.ports.high;
}

function comparePorts(a: Ports | null, b: Ports | null): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? -1 : 1;
  return compareText(a.type, b.type) || a.low - b.low || a.high - b.high;
}

/** Whether the server refuses to hold both: it has one exclusion constraint a class (observed: recordings/rule_overlap). */
export function collides(a: Rule, b: Rule): boolean {
  if (a.action !== b.action || a.userId !== b.userId || !intersects(a.destination, b.destination)) return false;
  if (a.ports === null || b.ports === null) return a.ports === b.ports;
  return portsIntersect(a.ports, b.ports);
}
