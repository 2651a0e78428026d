import { getOrMake, groupBy } from '../model/group-by.ts';
import { type Ports, type PortType, portsIntersect } from '../model/port-range.ts';
import type { Rule } from '../model/rule.ts';
import { eachLevel, type Level } from './nesting.ts';
import { PortOverlaps } from './port-overlaps.ts';

/** Visits every pair of items whose rules share a packet, the wider network first. Costs about what is found. */
export function eachMeeting<T>(
  items: readonly T[],
  ruleOf: (item: T) => Rule,
  visit: (outer: T, inner: T) => void,
): void {
  const known = new Map<Level<T>, Finder>();
  const found = (level: Level<T>): Finder => getOrMake(known, level, () => finderOf(level.items, ruleOf));
  eachLevel(
    items,
    (item) => ruleOf(item).destination,
    (level, enclosing) => {
      for (const inner of level.items) {
        for (const outer of enclosing) found(outer)(ruleOf(inner), (other) => visit(outer.items[other] as T, inner));
      }
      if (level.items.length < 2) return;
      for (const [position, inner] of level.items.entries()) {
        found(level)(ruleOf(inner), (other) => {
          if (other < position) visit(level.items[other] as T, inner);
        });
      }
    },
  );
}

/** Calls back with the position of each item of a level that shares a source, a protocol and a port with the rule. */
type Finder = (rule: Rule, visit: (position: number) => void) => void;

/** Levels of more items than this get an index. */
const fewItems = 16;

function finderOf<T>(items: readonly T[], ruleOf: (item: T) => Rule): Finder {
  const rules = items.map(ruleOf);
  if (rules.length <= fewItems) {
    return (rule, visit) => {
      for (const [position, other] of rules.entries()) if (meets(rule, other)) visit(position);
    };
  }
  const everybody = sourceIndex([...rules.keys()], rules);
  const bySource = groupBy(rules.keys(), (position) => (rules[position] as Rule).userId);
  const sources = new Map<string | null, SourceIndex>();
  const source = (userId: string | null): SourceIndex =>
    getOrMake(sources, userId, () => sourceIndex(bySource.get(userId) ?? [], rules));
  return (rule, visit) => {
    if (rule.userId === null) return eachIn(everybody, rule.ports, visit);
    eachIn(source(rule.userId), rule.ports, visit);
    eachIn(source(null), rule.ports, visit);
  };
}

/** Whether rules with intersecting networks share a packet: a source, a protocol, a port. */
function meets(a: Rule, b: Rule): boolean {
  if (a.userId !== b.userId && a.userId !== null && b.userId !== null) return false;
  return a.ports === null || b.ports === null || portsIntersect(a.ports, b.ports);
}

/** Rules of one network and source, as positions. */
interface SourceIndex {
  readonly all: readonly number[];
  readonly withoutPorts: readonly number[];
  readonly withPorts: Readonly<Record<PortType, { readonly at: readonly number[]; readonly overlaps: PortOverlaps }>>;
}

function sourceIndex(all: readonly number[], rules: readonly Rule[]): SourceIndex {
  const portsOf = (position: number): Ports | null => (rules[position] as Rule).ports;
  const ofType = (type: PortType) => {
    const at = all.filter((position) => portsOf(position)?.type === type);
    return { at, overlaps: new PortOverlaps(at.map((position) => portsOf(position) as Ports)) };
  };
  return {
    all,
    withoutPorts: all.filter((position) => portsOf(position) === null),
    withPorts: { tcp: ofType('tcp'), udp: ofType('udp') },
  };
}

function eachIn(index: SourceIndex, ports: Ports | null, visit: (position: number) => void): void {
  for (const position of ports === null ? index.all : index.withoutPorts) visit(position);
  if (ports === null) return;
  const { at, overlaps } = index.withPorts[ports.type];
  overlaps.each(ports, (number) => visit(at[number] as number));
}
