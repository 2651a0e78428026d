import { coverRange, intersects } from '../model/address.ts';
import { findFirstPosition, groupBy } from '../model/group-by.ts';
import { pickHigher, pickLower } from '../model/intervals.ts';
import { compareText } from '../model/problem.ts';
import { formatRuleKey, isModifiedInPlace, type LiveRule, type Rule } from '../model/rule.ts';
import { type FilterElement, type FilterTable, formatSetName, readSetKind, type SetKind } from './table.ts';

/** As rules, what no live rule explains of a kernel element, and the live rule whose change in place probably left it; null when none did. */
export interface Leftover {
  readonly rules: readonly Rule[];
  readonly leftBy: LiveRule | null;
}

/** The set that holds a rule. */
export function getSetKind(live: LiveRule): SetKind {
  const { userId, destination, action, ports } = live.rule;
  return { userId, family: destination.family, action, withPorts: ports !== null };
}

/** Compares live rules with the kernel's sets, as traffic; O(n log n) when most agree. `missing`: rules, with what their set lacks. */
export function compareSets(rules: readonly LiveRule[], table: FilterTable) {
  const bySet = groupBy(rules, (live) => formatSetName(getSetKind(live)));
  const missing: (readonly [LiveRule, readonly Rule[]])[] = [];
  const surplus: (readonly Rule[])[] = [];
  const exact = new Set<LiveRule>();
  for (const name of new Set([...bySet.keys(), ...table.sets.keys()])) {
    const kind = readSetKind(name);
    if (kind === null) continue;
    const wanted = (bySet.get(name) ?? []).map((live) => ({ ...live.rule.destination, ports: live.rule.ports, live }));
    const held = table.sets.get(name)?.elements ?? [];
    const heldKeys = new Set(held.map(keyOf));
    const wantedKeys = new Set(wanted.map(keyOf));
    for (const element of wanted) if (heldKeys.has(keyOf(element))) exact.add(element.live);
    const rest = wanted.filter((element) => !exact.has(element.live));
    for (const [{ live }, rules] of subtractAll(rest, held, kind)) missing.push([live, rules]);
    const unexplained = held.filter((element) => !wantedKeys.has(keyOf(element)));
    for (const [, rules] of subtractAll(unexplained, wanted, kind)) surplus.push(rules);
  }
  const changed = rules.filter((live) => isModifiedInPlace(live) && !exact.has(live));
  return { missing, surplus: attributeSurplus(surplus, changed) };
}

function keyOf({ first, last, ports }: FilterElement): string {
  return `${first}-${last}${ports === null ? '' : ` ${ports.type} ${ports.low}-${ports.high}`}`;
}

/** As rules what remains of each element without all the others; elements of which nothing remains are left out. */
function subtractAll<E extends FilterElement>(elements: readonly E[], others: readonly FilterElement[], kind: SetKind) {
  if (elements.length === 0) return [];
  const index = indexOf(others);
  return elements.flatMap((element) => {
    let parts: readonly FilterElement[] = [element];
    for (const other of overlapping(index, element)) parts = parts.flatMap((part) => subtract(part, other));
    return parts.length === 0 ? [] : [[element, parts.flatMap((part) => toRules(part, kind))] as const];
  });
}

/** The elements by address, and for each the highest address of those up to and including it. */
function indexOf(elements: readonly FilterElement[]) {
  const sorted = [...elements].sort((a, b) => (a.first < b.first ? -1 : a.first > b.first ? 1 : 0));
  const reach: bigint[] = [];
  for (const { last } of sorted) reach.push(pickHigher(last, reach.at(-1) ?? last));
  return { sorted, reach };
}

function* overlapping({ sorted, reach }: ReturnType<typeof indexOf>, element: FilterElement): Generator<FilterElement> {
  const end = findFirstPosition(sorted.length, (position) => (sorted[position]?.first ?? 0n) > element.last);
  for (let i = end - 1; i >= 0 && (reach[i] ?? 0n) >= element.first; i--) {
    const other = sorted[i];
    if (other !== undefined && other.last >= element.first) yield other;
  }
}

/** The rules that mean exactly what an element of such a set does: one for each CIDR of its interval. */
export function toRules({ first, last, ports }: FilterElement, { family, action, userId }: SetKind): readonly Rule[] {
  return coverRange(family, first, last).map((destination) => ({ action, destination, ports, userId }));
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

/** One element to one rule that was changed in place, the most alike first: any pairing says the same about the traffic. */
function attributeSurplus(surplus: readonly (readonly Rule[])[], changed: readonly LiveRule[]): readonly Leftover[] {
  const free = new Set(changed);
  const textOf = ({ rules }: Leftover): string => rules.map(formatRuleKey).join(', ');
  const leftovers = surplus
    .map((rules): Leftover => ({ rules, leftBy: null }))
    .sort((a, b) => compareText(textOf(a), textOf(b)));
  for (const least of [5, 4, 3, 2, 1, 0]) {
    for (const [index, leftover] of leftovers.entries()) {
      if (leftover.leftBy !== null || free.size === 0) continue;
      const found = [...free].find((live) => likeness(live.rule, leftover.rules[0]) >= least);
      if (found === undefined) continue;
      free.delete(found);
      leftovers[index] = { ...leftover, leftBy: found };
    }
  }
  return leftovers;
}

function likeness(a: Rule, b: Rule | undefined): number {
  if (b === undefined) return 0;
  const [isSameUser, isNear] = [a.userId === b.userId, intersects(a.destination, b.destination)];
  return 2 * Number(isSameUser) + 2 * Number(isNear) + Number(a.action === b.action);
}
