import { getOrMake, groupBy } from '../model/group-by.ts';
import { type Ports, type PortType, portsIntersect } from '../model/port-range.ts';
import type { Rule } from '../model/rule.ts';
import { eachLevel, type Level } from './nesting.ts';
import { PortOverlaps } from './port-overlaps.ts';

/**
 * Visits every pair of items whose rules share a packet, the wider network first; with `isAsked` only pairs of which one at least is
 * asked about. Costs about what is found.
 */
export function eachMeeting<T>(
  items: readonly T[],
  ruleOf: (item: T) => Rule,
  visit: (outer: T, inner: T) => void,
  isAsked: (item: T) => boolean = () => true,
): void {
  const known = new Map<Level<T>, Finders>();
  const finders = (level: Level<T>): Finders => getOrMake(known, level, () => findersOf(level.items, ruleOf, isAsked));
  /** Visits those of the first `count` items of the level that meet the item. */
  const visitAmong = (level: Level<T>, count: number, inner: T): void => {
    const rule = ruleOf(inner);
    const asked = isAsked(inner);
    if (level.items.length > fewItems) {
      const { all, ofAsked } = finders(level);
      (asked ? all : ofAsked)?.(rule, (position) => {
        if (position < count) visit(level.items[position] as T, inner);
      });
      return;
    }
    for (let position = 0; position < count; position++) {
      const outer = level.items[position] as T;
      if ((asked || isAsked(outer)) && meets(rule, ruleOf(outer))) visit(outer, inner);
    }
  };
  eachLevel(
    items,
    (item) => ruleOf(item).destination,
    (level, enclosing) => {
      for (const inner of level.items) for (const outer of enclosing) visitAmong(outer, outer.items.length, inner);
      for (let position = 1; position < level.items.length; position++) {
        visitAmong(level, position, level.items[position] as T);
      }
    },
  );
}

/** Finders among all items of a level, and among those that are asked about; null where there are none. */
interface Finders {
  readonly all: Finder;
  readonly ofAsked: Finder | null;
}

function findersOf<T>(items: readonly T[], ruleOf: (item: T) => Rule, isAsked: (item: T) => boolean): Finders {
  const positions = [...items.keys()];
  const rules = items.map(ruleOf);
  const asked = positions.filter((position) => isAsked(items[position] as T));
  const all = finderOf(rules, positions);
  return { all, ofAsked: asked.length === 0 ? null : asked.length === items.length ? all : finderOf(rules, asked) };
}

/** Calls back with the position of each item of a level that shares a source, a protocol and a port with the rule. */
type Finder = (rule: Rule, visit: (position: number) => void) => void;

/** Levels of more items than this get an index, and so do sources within them. */
const fewItems = 16;

function finderOf(rules: readonly Rule[], among: readonly number[]): Finder {
  const everybody = finderOfSource(rules, among);
  const bySource = groupBy(among, (position) => (rules[position] as Rule).userId);
  const sources = new Map<string | null, Finder>();
  const source = (userId: string | null): Finder =>
    getOrMake(sources, userId, () => finderOfSource(rules, bySource.get(userId) ?? []));
  return (rule, visit) => {
    if (rule.userId === null) return everybody(rule, visit);
    source(rule.userId)(rule, visit);
    source(null)(rule, visit);
  };
}

/** Whether rules with intersecting networks share a packet: a source, a protocol, a port. */
function meets(a: Rule, b: Rule): boolean {
  if (a.userId !== b.userId && a.userId !== null && b.userId !== null) return false;
  return a.ports === null || b.ports === null || portsIntersect(a.ports, b.ports);
}

/** Among rules that all share a source with those that are looked for. */
function finderOfSource(rules: readonly Rule[], among: readonly number[]): Finder {
  if (among.length <= fewItems) {
    return (rule, visit) => {
      for (const position of among) if (meets(rule, rules[position] as Rule)) visit(position);
    };
  }
  const portsOf = (position: number): Ports | null => (rules[position] as Rule).ports;
  const withoutPorts = among.filter((position) => portsOf(position) === null);
  const ofType = (type: PortType) => {
    const at = among.filter((position) => portsOf(position)?.type === type);
    return { at, overlaps: new PortOverlaps(at.map((position) => portsOf(position) as Ports)) };
  };
  const withPorts = { tcp: ofType('tcp'), udp: ofType('udp') };
  return ({ ports }, visit) => {
    for (const position of ports === null ? among : withoutPorts) visit(position);
    if (ports === null) return;
    const { at, overlaps } = withPorts[ports.type];
    overlaps.each(ports, (number) => visit(at[number] as number));
  };
}
