import type { Family } from '../model/address.ts';
import { groupBy } from '../model/group-by.ts';
import { compareText } from '../model/problem.ts';
import type { LiveRule } from '../model/rule.ts';
import { getSetKind } from './compare.ts';
import { type ChainRule, type FilterTable, formatSetName, nameChain, type SetKind, type Unknown } from './table.ts';

/** A defect of the chains: without them the elements of a set decide nothing. */
export interface StructureDefect {
  readonly kind: 'user-chain-missing' | 'jump-missing' | 'verdict-missing' | 'table-missing';
  readonly userId: string | null;
  /** Null: both families. */
  readonly family: Family | null;
  /** For `verdict-missing`: the set whose elements decide nothing. */
  readonly set: SetKind | null;
}

/** The chains' defects, and which sets take part in verdicts. */
export interface Structure {
  readonly defects: readonly StructureDefect[];
  readonly reaches: (kind: SetKind) => boolean;
  /** Whether the user's chain (null: the whole table) is missing, so that its rules need no findings of their own. */
  readonly chainless: (userId: string | null) => boolean;
}

/** Examines the chains of all users who have live rules or a chain or sets of their own. */
export function examineStructure(rules: readonly LiveRule[], table: FilterTable): Structure {
  if (table.dormant === true || !table.chains.has('forward')) {
    const defect = { kind: 'table-missing', userId: null, family: null, set: null } as const;
    return { defects: [defect], reaches: () => false, chainless: () => true };
  }
  const needed = neededSets(rules, table);
  const defects: StructureDefect[] = [];
  const unreached = new Set<string>();
  for (const [userId, kinds] of needed) {
    const found = examineScope(userId, kinds, table);
    for (const one of found) defects.push(one);
    for (const kind of kinds) if (found.some((defect) => isConcerned(kind, defect))) unreached.add(formatSetName(kind));
  }
  return {
    defects,
    reaches: (kind) => !unreached.has(formatSetName(kind)),
    chainless: (userId) => !table.chains.has(nameChain(userId)),
  };
}

/** Whether the elements of a set decide nothing because of this defect. */
export function isConcerned(own: SetKind, { kind, userId, family, set }: StructureDefect): boolean {
  if (kind === 'table-missing') return true;
  if (own.userId !== userId || (family !== null && own.family !== family)) return false;
  return set === null || formatSetName(set) === formatSetName(own);
}

/** The sets that matter, by user: those of live rules, and those with elements. */
function neededSets(rules: readonly LiveRule[], table: FilterTable): ReadonlyMap<string | null, readonly SetKind[]> {
  const kinds = new Map(rules.map(getSetKind).map((kind) => [formatSetName(kind), kind]));
  for (const set of table.sets.values()) if (set.elements.length > 0) kinds.set(set.name, set.kind);
  const sorted = [...kinds].sort(([a], [b]) => compareText(a, b)).map(([, kind]) => kind);
  return groupBy(sorted, ({ userId }) => userId);
}

function examineScope(
  userId: string | null,
  kinds: readonly SetKind[],
  table: FilterTable,
): readonly StructureDefect[] {
  const chain = table.chains.get(nameChain(userId));
  if (chain === undefined) return [{ kind: 'user-chain-missing', userId, family: null, set: null }];
  const defects: StructureDefect[] = [];
  const forward = table.chains.get('forward') ?? [];
  for (const family of [4, 6] as const) {
    if (userId === null || !kinds.some((kind) => kind.family === family)) continue;
    const jumps = forward.some((rule) => rule.type === 'jump' && rule.userId === userId && rule.family === family);
    if (!jumps) defects.push({ kind: 'jump-missing', userId, family, set: null });
  }
  for (const kind of kinds) {
    const name = formatSetName(kind);
    if (!table.sets.has(name) || chain.some((rule) => rule.type === 'verdict' && rule.set === name)) continue;
    defects.push({ kind: 'verdict-missing', userId, family: kind.family, set: kind });
  }
  return defects;
}

/** Chains whose verdicts do not fall in the policy engine's order, in each family (observed: recordings/packet_filter_sets). */
export function listMisordered({ chains }: FilterTable): readonly Unknown[] {
  const detail = 'its rules stand in another order than Firezone’s, so verdicts may differ from what is foretold';
  return [...chains].flatMap(([name, chain]) => (isInOrder(chain) ? [] : [{ what: 'chain', name, detail }]));
}

function isInOrder(chain: readonly ChainRule[]): boolean {
  return ([4, 6] as const).every((family) => {
    const ranks = chain.map((rule) => rankOf(rule, family)).filter((rank) => rank !== null);
    return ranks.every((rank, index) => index === 0 || rank >= (ranks[index - 1] ?? 0));
  });
}

function rankOf(rule: ChainRule, family: Family): number | null {
  if ((rule.type === 'jump' ? rule.family : rule.kind.family) !== family) return null;
  if (rule.type === 'jump') return 0;
  return 1 + (rule.kind.withPorts ? 0 : 2) + (rule.kind.action === 'accept' ? 0 : 1);
}
