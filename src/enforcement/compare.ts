import { findFirstPosition } from '../model/group-by.ts';
import type { LiveRule } from '../model/rule.ts';
import { pickHigher, pickLower } from '../policy/intervals.ts';
import type { FilterElement, FilterTable, SetKind } from './table.ts';
import { formatSetName } from './table.ts';

/** A live rule and the parts of it that its set in the kernel does not hold. */
export interface MissingRule {
  readonly live: LiveRule;
  readonly kind: SetKind;
  readonly parts: readonly FilterElement[];
}

/** The parts of a kernel element that no live rule of its set explains. */
export interface SurplusElement {
  readonly kind: SetKind;
  readonly parts: readonly FilterElement[];
}

/** The difference between live rules and the elements of the kernel's sets, as sets of traffic. */
export interface Difference {
  readonly missing: readonly MissingRule[];
  readonly surplus: readonly SurplusElement[];
  /** Live rules that stand in the kernel as one element, exactly. */
  readonly exact: ReadonlySet<LiveRule>;
}

interface LiveElement extends FilterElement {
  readonly live: LiveRule;
}

/** The set that holds a rule. */
export function getSetKind(live: LiveRule): SetKind {
  const { userId, destination, action, ports } = live.rule;
  return { userId, family: destination.family, action, withPorts: ports !== null };
}

/** Compares live rules with the kernel's sets; O(n log n) when most elements agree exactly. */
export function compareSets(rules: readonly LiveRule[], table: FilterTable): Difference {
  const bySet = new Map<string, { kind: SetKind; elements: LiveElement[] }>();
  for (const live of rules) {
    const kind = getSetKind(live);
    const name = formatSetName(kind);
    const group = bySet.get(name) ?? { kind, elements: [] };
    group.elements.push({ ...live.rule.destination, ports: live.rule.ports, live });
    bySet.set(name, group);
  }
  const missing: MissingRule[] = [];
  const surplus: SurplusElement[] = [];
  const exact = new Set<LiveRule>();
  for (const name of new Set([...bySet.keys(), ...table.sets.keys()])) {
    const kind = bySet.get(name)?.kind ?? table.sets.get(name)?.kind;
    if (kind === undefined) continue;
    const wanted = bySet.get(name)?.elements ?? [];
    const held = table.sets.get(name)?.elements ?? [];
    const heldKeys = new Set(held.map(keyOf));
    const wantedKeys = new Set(wanted.map(keyOf));
    for (const element of wanted) if (heldKeys.has(keyOf(element))) exact.add(element.live);
    const rest = wanted.filter((element) => !exact.has(element.live));
    for (const [element, parts] of subtractAll(rest, held)) missing.push({ live: element.live, kind, parts });
    const unexplained = held.filter((element) => !wantedKeys.has(keyOf(element)));
    for (const [, parts] of subtractAll(unexplained, wanted)) surplus.push({ kind, parts });
  }
  return { missing, surplus, exact };
}

function keyOf({ first, last, ports }: FilterElement): string {
  return `${first}-${last}${ports === null ? '' : ` ${ports.type} ${ports.low}-${ports.high}`}`;
}

/** What remains of each element without all the others; elements of which nothing remains are left out. */
function subtractAll<E extends FilterElement>(
  elements: readonly E[],
  others: readonly FilterElement[],
): readonly (readonly [E, readonly FilterElement[]])[] {
  if (elements.length === 0) return [];
  const index = indexOf(others);
  const rest: (readonly [E, readonly FilterElement[]])[] = [];
  for (const element of elements) {
    let parts: readonly FilterElement[] = [element];
    for (const other of overlapping(index, element)) parts = parts.flatMap((part) => subtract(part, other));
    if (parts.length > 0) rest.push([element, parts.map(({ first, last, ports }) => ({ first, last, ports }))]);
  }
  return rest;
}

interface Index {
  readonly sorted: readonly FilterElement[];
  /** The highest address of the elements up to and including this one. */
  readonly reach: readonly bigint[];
}

function indexOf(elements: readonly FilterElement[]): Index {
  const sorted = [...elements].sort((a, b) => (a.first < b.first ? -1 : a.first > b.first ? 1 : 0));
  const reach: bigint[] = [];
  for (const { last } of sorted) reach.push(pickHigher(last, reach.at(-1) ?? last));
  return { sorted, reach };
}

function* overlapping({ sorted, reach }: Index, element: FilterElement): Generator<FilterElement> {
  const end = findFirstPosition(sorted.length, (position) => (sorted[position]?.first ?? 0n) > element.last);
  for (let i = end - 1; i >= 0 && (reach[i] ?? 0n) >= element.first; i--) {
    const other = sorted[i];
    if (other !== undefined && other.last >= element.first) yield other;
  }
}

/** The parts of `a` outside `b`; both in one set, so both with ports or both without. */
function subtract(a: FilterElement, b: FilterElement): readonly FilterElement[] {
  if (a.last < b.first || b.last < a.first) return [a];
  if (a.ports !== null && b.ports !== null) {
    if (a.ports.type !== b.ports.type || a.ports.high < b.ports.low || b.ports.high < a.ports.low) return [a];
  }
  const parts: FilterElement[] = [];
  if (a.first < b.first) parts.push({ ...a, last: b.first - 1n });
  if (a.last > b.last) parts.push({ ...a, first: b.last + 1n });
  if (a.ports === null || b.ports === null) return parts;
  const shared = { first: pickHigher(a.first, b.first), last: pickLower(a.last, b.last) };
  const { type, low, high } = a.ports;
  if (low < b.ports.low) parts.push({ ...shared, ports: { type, low, high: b.ports.low - 1 } });
  if (high > b.ports.high) parts.push({ ...shared, ports: { type, low: b.ports.high + 1, high } });
  return parts;
}
