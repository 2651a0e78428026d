import type { Family } from '../model/address.ts';
import { groupBy } from '../model/group-by.ts';
import { compareText } from '../model/problem.ts';
import type { LiveRule } from '../model/rule.ts';
import { getSetKind } from './compare.ts';
import { type ChainRule, type FilterTable, formatSetName, nameChain, type SetKind, type Unknown } from './table.ts';

/** A defect of the chains: without them the elements of a set decide nothing. */
export interface StructureDefect {
  readonly kind: 'user-chain-missing' | 'jump-missing' | 'verdict-missing' | 'table-missing';
  /** What is wrong, for a person. */
  readonly what: string;
  readonly userId: string | null;
  /** Null: both families. */
  readonly family: Family | null;
  /** Whether the elements of a set of that kind decide nothing because of it. */
  readonly concerns: (kind: SetKind) => boolean;
}

/** Whether a chain stands that decides on a user's packets (null: on everybody's). */
export function hasChain({ chains, dormant }: FilterTable, userId: string | null): boolean {
  return dormant !== true && chains.has('forward') && chains.has(nameChain(userId));
}

/** The defects of the chains of all users who have live rules or a chain or sets of their own. */
export function findDefects(rules: readonly LiveRule[], table: FilterTable): readonly StructureDefect[] {
  if (hasChain(table, null))
    return [...neededSets(rules, table)].flatMap(([userId, kinds]) => examineScope(userId, kinds, table));
  const cause =
    table.dormant === true ? 'the table inet firezone is dormant' : "the kernel has no forward chain of Firezone's";
  const what = `${cause}: nothing is filtered,`;
  return [{ kind: 'table-missing', what, userId: null, family: null, concerns: () => true }];
}

/** The sets that matter, by user: those of live rules, and those with elements. */
function neededSets(rules: readonly LiveRule[], table: FilterTable): ReadonlyMap<string | null, readonly SetKind[]> {
  const kinds = new Map(rules.map(getSetKind).map((kind) => [formatSetName(kind), kind]));
  for (const [name, { kind, elements }] of table.sets) if (elements.length > 0) kinds.set(name, kind);
  const sorted = [...kinds].sort(([a], [b]) => compareText(a, b)).map(([, kind]) => kind);
  return groupBy(sorted, ({ userId }) => userId);
}

function examineScope(
  userId: string | null,
  kinds: readonly SetKind[],
  table: FilterTable,
): readonly StructureDefect[] {
  const name = nameChain(userId);
  const isOwn = (kind: SetKind): boolean => kind.userId === userId;
  if (!hasChain(table, userId)) {
    const what = `the chain ${name} is missing:`;
    return [{ kind: 'user-chain-missing', what, userId, family: null, concerns: isOwn }];
  }
  const defects: StructureDefect[] = [];
  const [forward = [], chain = []] = ['forward', name].map((one) => table.chains.get(one));
  for (const family of [4, 6] as const) {
    if (userId === null || !kinds.some((kind) => kind.family === family)) continue;
    if (forward.some((rule) => rule.type === 'jump' && rule.userId === userId && rule.family === family)) continue;
    const what = `nothing jumps to the chain ${name} for IPv${family}:`;
    const concerns = (kind: SetKind): boolean => isOwn(kind) && kind.family === family;
    defects.push({ kind: 'jump-missing', what, userId, family, concerns });
  }
  for (const kind of kinds) {
    const set = formatSetName(kind);
    if (!table.sets.has(set) || chain.some((rule) => rule.type === 'verdict' && formatSetName(rule.kind) === set))
      continue;
    const what = `the chain ${name} has no rule for the set ${set}:`;
    const concerns = (one: SetKind): boolean => formatSetName(one) === set;
    defects.push({ kind: 'verdict-missing', what, userId, family: kind.family, concerns });
  }
  return defects;
}

/** Chains whose verdicts do not fall in the policy engine's order, in each family (observed: recordings/packet_filter_sets). */
export function listMisordered({ chains }: FilterTable): readonly Unknown[] {
  const detail = 'its rules stand in another order than Firezone’s, so verdicts may differ from what is foretold';
  return [...chains].flatMap(([name, chain]) => (isInOrder(chain) ? [] : [{ where: `chain ${name}`, detail }]));
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
