import { compareNetworks, type Family, Network, readNetworks } from '../model/address.ts';
import { groupBy } from '../model/group-by.ts';
import { compareText } from '../model/problem.ts';
import { type FindingKind, findingKinds } from '../model/problem-code.ts';
import { formatRuleKey, isModifiedInPlace, type LiveRule, type Rule } from '../model/rule.ts';
import { computeEffect } from '../policy/effect.ts';
import { restrictTraffic } from '../policy/reach.ts';
import type { Effect, Traffic } from '../policy/traffic.ts';
import { compareSets, getSetKind, type Leftover, toRules } from './compare.ts';
import type { EnforcementReport, Finding, FindingCounts, RuleNames, RuleRef } from './report.ts';
import { type ChainRule, type FilterTable, formatSetName, nameChain, type SetKind, type Unknown } from './table.ts';

/** A finding before its share of the traffic is known: that of its `parts`, which must be disjoint. */
interface Draft extends Omit<Finding, 'effect'> {
  readonly parts: readonly Part[];
}

type Part = Omit<Rule, 'action'>;

/** Compares the kernel's table with the live rules, as sets of traffic. Equal inputs in any order give equal reports. */
export function checkEnforcement(live: readonly LiveRule[], names: RuleNames, table: FilterTable): EnforcementReport {
  const { missing, surplus } = compareSets(live, table);
  const defects = findDefects(live, table);
  const refer = ({ id, rule }: LiveRule): RuleRef => {
    const key = formatRuleKey(rule);
    const { name = null, place = null } = names.get(key) ?? {};
    return { id, key, name, place };
  };
  const drafts = [
    ...missing
      .filter(([{ rule }]) => hasChain(table, rule.userId))
      .map(([rule, parts]) => missingFinding(rule, parts, refer(rule))),
    ...surplus.map((leftover) => surplusFinding(leftover, refer)),
    ...defects.map((defect) => {
      const rules = live.filter((one) => defect.concerns(getSetKind(one))).map(refer);
      return structureFinding(defect, rules, table.dormant);
    }),
    ...[...table.unknown, ...listMisordered(table)].map(({ where, detail }): Draft => {
      const summary = `unknown ${where} in the table inet firezone: ${detail}`;
      return { kind: 'unknown', summary, rules: [], elements: [], parts: [] };
    }),
  ];
  const agrees = drafts.every((draft) => draft.kind === 'unknown');
  const effect = agrees ? { opens: [], closes: [] } : trafficOf(live, table, defects);
  const findings = drafts
    .map(({ parts, ...draft }): Finding => {
      const own = { opens: restrictAll(effect.opens, parts), closes: restrictAll(effect.closes, parts) };
      return { ...draft, effect: own };
    })
    // By kind, then by text.
    .sort(
      (a, b) =>
        findingKinds.indexOf(a.kind) - findingKinds.indexOf(b.kind) ||
        compareText(a.elements[0] ?? '', b.elements[0] ?? '') ||
        compareText(a.summary, b.summary),
    );
  return {
    state: findings.length === 0 ? 'enforced' : 'differs',
    message: null,
    findings,
    counts: countFindings(findings),
    effect,
    liveRules: live.length,
    elements: [...table.sets.values()].reduce((sum, { elements }) => sum + elements.length, 0),
    ...(table.handle === undefined ? {} : { tableHandle: table.handle }),
  };
}

function countFindings(findings: readonly Finding[]): FindingCounts {
  const count = (kind: FindingKind): number => findings.filter((finding) => finding.kind === kind).length;
  const [missing, stale, extra] = [count('missing'), count('stale'), count('extra')];
  return { missing, stale, extra, structure: findings.length - missing - stale - extra };
}

function trafficOf(live: readonly LiveRule[], table: FilterTable, defects: readonly StructureDefect[]): Effect {
  const deciding = [...table.sets.values()].filter(({ kind }) => !defects.some(({ concerns }) => concerns(kind)));
  const asked = live.map(({ rule }) => rule);
  const held = deciding.flatMap(({ kind, elements }) => elements.flatMap((element) => toRules(element, kind)));
  return computeEffect(asked, held);
}

function missingFinding(live: LiveRule, rules: readonly Rule[], ref: RuleRef): Draft {
  const elements = rules.map(formatRuleKey);
  const whole = elements.length === 1 && elements[0] === ref.key;
  const why = isModifiedInPlace(live) ? '; it was changed in place, which never reaches the kernel' : '';
  const summary = whole
    ? `${titleOf(ref)} is not in the kernel${why}`
    : `${titleOf(ref)} is only partly in the kernel, ${elements.join(', ')} is not${why}`;
  return { kind: 'missing', summary, rules: [ref], elements, parts: rules };
}

function surplusFinding({ rules: parts, leftBy }: Leftover, refer: (live: LiveRule) => RuleRef): Draft {
  const elements = parts.map(formatRuleKey);
  const held = elements.join(', ');
  if (leftBy === null) {
    const summary = `the kernel holds ${held}, which no live rule asks for`;
    return { kind: 'extra', summary, rules: [], elements, parts };
  }
  const ref = refer(leftBy);
  const summary = `the kernel still holds ${held}, left behind when ${titleOf(ref)} was changed in place`;
  return { kind: 'stale', summary, rules: [ref], elements, parts };
}

function structureFinding({ kind, what, userId, family }: StructureDefect, rules: readonly RuleRef[], dormant = false) {
  const summary = `${what} ${rules.length === 1 ? 'one live rule has' : `${rules.length} live rules have`} no effect`;
  const parts = (family === null ? ([4, 6] as const) : [family]).map((one): Part => {
    return { userId, destination: new Network(one, 0n, 0), ports: null };
  });
  return { kind, summary, rules, elements: [], parts, dormant };
}

function titleOf({ name, key, place }: RuleRef): string {
  if (name === null) return `the rule ${key}`;
  return place === null ? `the rule ${name} (${key})` : `the rule ${name} (${key}, ${place.file}:${place.line})`;
}

function restrictAll(traffic: readonly Traffic[], parts: readonly Part[]): readonly Traffic[] {
  const inside = traffic.flatMap((one) =>
    parts.flatMap(({ userId, destination, ports }) =>
      userId === null || userId === one.user
        ? restrictTraffic([one], { network: destination, protocol: ports?.type ?? null, ports })
        : [],
    ),
  );
  const alike = groupBy(inside, ({ user, protocol, ports }) => JSON.stringify([user, protocol, ports]));
  return [...alike.values()].flatMap(([first, ...others]) => {
    if (first === undefined) return [];
    const networks = readNetworks([first, ...others].flatMap(({ destinations }) => destinations));
    return [{ ...first, destinations: networks.toSorted(compareNetworks).map(({ text }) => text) }];
  });
}

/** A defect of the chains: without them the elements of a set decide nothing. */
interface StructureDefect {
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
function hasChain({ chains, dormant }: FilterTable, userId: string | null): boolean {
  return dormant !== true && chains.has('forward') && chains.has(nameChain(userId));
}

/** The defects of the chains of all users who have live rules or a chain or sets of their own. */
function findDefects(rules: readonly LiveRule[], table: FilterTable): readonly StructureDefect[] {
  if (hasChain(table, null))
    return [...neededSets(rules, table)].flatMap(([userId, kinds]) => examineUser(userId, kinds, table));
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

function examineUser(userId: string | null, kinds: readonly SetKind[], table: FilterTable): readonly StructureDefect[] {
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
function listMisordered({ chains }: FilterTable): readonly Unknown[] {
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
