import { compareNetworks, type Family, makeNetwork, type Network, parseNetwork } from '../model/address.ts';
import { groupBy } from '../model/group-by.ts';
import { formatRuleKey, isModifiedInPlace, type LiveRule, type Rule } from '../model/rule.ts';
import { computeEffect } from '../policy/effect.ts';
import { restrictTraffic, type TrafficSelector } from '../policy/reach.ts';
import type { Effect, Traffic } from '../policy/traffic.ts';
import { attributeSurplus, compareSets, getSetKind, type Leftover, type MissingRule } from './compare.ts';
import { toRules } from './elements.ts';
import {
  compareFindings,
  countFindings,
  type EnforcementReport,
  type Finding,
  type RuleNames,
  type RuleRef,
} from './report.ts';
import { examineStructure, isConcerned, listMisordered, type Structure, type StructureDefect } from './structure.ts';
import { type FilterTable, formatSetName, nameChain, type Unknown } from './table.ts';

export interface CheckInput {
  readonly live: readonly LiveRule[];
  readonly table: FilterTable;
  readonly names: RuleNames;
}

/** A finding before its share of the traffic is known. */
interface Draft extends Omit<Finding, 'effect'> {
  readonly reaches: readonly Reach[];
}

/** Compares the kernel's table with the live rules, as sets of traffic. Equal inputs in any order give equal reports. */
export function checkEnforcement({ live, table, names }: CheckInput): EnforcementReport {
  const difference = compareSets(live, table);
  const structure = examineStructure(live, table);
  const refer = (rule: LiveRule): RuleRef => referTo(rule, names);
  const drafts = [
    ...difference.missing
      .filter(({ kind }) => !structure.chainless(kind.userId))
      .map((missing) => missingFinding(missing, refer)),
    ...attributeSurplus(live, difference).map((leftover) => surplusFinding(leftover, refer)),
    ...structure.defects.map((defect) => structureFinding(defect, live, refer, table)),
    ...[...table.unknown, ...listMisordered(table)].map(unknownFinding),
  ];
  const agrees = drafts.every((draft) => draft.kind === 'unknown');
  const effect = agrees ? noEffect : trafficOf(live, table, structure);
  const findings = drafts
    .map(({ reaches, ...draft }): Finding => ({ ...draft, effect: restrictEffect(effect, reaches) }))
    .sort(compareFindings);
  return {
    state: findings.length === 0 ? 'enforced' : 'differs',
    message: null,
    findings,
    counts: countFindings(findings),
    effect,
    liveRules: live.length,
    elements: table.elementCount,
    ...(table.handle === undefined ? {} : { tableHandle: table.handle }),
  };
}

/** The report for a kernel without the table, or with one that is switched off: nothing is filtered. */
export function reportMissingTable(live: readonly LiveRule[], names: RuleNames, dormant = false): EnforcementReport {
  const table = { sets: new Map(), chains: new Map(), unknown: [], elementCount: 0, dormant };
  return checkEnforcement({ live, names, table });
}

const noEffect: Effect = { opens: [], closes: [] };

function trafficOf(live: readonly LiveRule[], table: FilterTable, structure: Structure): Effect {
  const kernel: Rule[] = [];
  for (const { kind, elements } of table.sets.values()) {
    if (structure.reaches(kind))
      for (const element of elements) for (const one of toRules(element, kind)) kernel.push(one);
  }
  return computeEffect(
    live.map(({ rule }) => rule),
    kernel,
  );
}

function referTo(live: LiveRule, names: RuleNames): RuleRef {
  const key = formatRuleKey(live.rule);
  const named = names.get(key);
  return { id: live.id, key, name: named?.name ?? null, place: named?.place ?? null };
}

function missingFinding({ live, rules }: MissingRule, refer: (live: LiveRule) => RuleRef): Draft {
  const ref = refer(live);
  const elements = rules.map(formatRuleKey);
  const whole = elements.length === 1 && elements[0] === ref.key;
  const why = isModifiedInPlace(live) ? '; it was changed in place, which never reaches the kernel' : '';
  const summary = whole
    ? `${titleOf(ref)} is not in the kernel${why}`
    : `${titleOf(ref)} is only partly in the kernel, ${elements.join(', ')} is not${why}`;
  return { kind: 'missing', summary, rules: [ref], elements, reaches: rules.map(reachOf) };
}

function surplusFinding({ rules, leftBy }: Leftover, refer: (live: LiveRule) => RuleRef): Draft {
  const elements = rules.map(formatRuleKey);
  const base = { elements, reaches: rules.map(reachOf) };
  if (leftBy === null) {
    return {
      ...base,
      kind: 'extra',
      rules: [],
      summary: `the kernel holds ${elements.join(', ')}, which no live rule asks for`,
    };
  }
  const ref = refer(leftBy);
  const summary = `the kernel still holds ${elements.join(', ')}, left behind when ${titleOf(ref)} was changed in place`;
  return { ...base, kind: 'stale', rules: [ref], summary };
}

function structureFinding(
  defect: StructureDefect,
  live: readonly LiveRule[],
  refer: (live: LiveRule) => RuleRef,
  { dormant = false }: FilterTable,
): Draft {
  const { kind, userId, family } = defect;
  const rules = live.filter((entry) => isConcerned(getSetKind(entry), defect)).map(refer);
  const reaches = listReaches(userId, family === null ? [4, 6] : [family]);
  return { kind, summary: structureSummary(defect, rules.length, dormant), rules, elements: [], reaches, dormant };
}

function structureSummary({ kind, userId, family, set }: StructureDefect, count: number, dormant: boolean): string {
  const chain = nameChain(userId);
  const rules = count === 1 ? 'one live rule has' : `${count} live rules have`;
  switch (kind) {
    case 'table-missing':
      return `${dormant ? 'the table inet firezone is dormant' : "the kernel has no forward chain of Firezone's"}: nothing is filtered, ${rules} no effect`;
    case 'user-chain-missing':
      return `the chain ${chain} is missing: ${rules} no effect`;
    case 'jump-missing':
      return `nothing jumps to the chain ${chain} for ${familyName(family)}: ${rules} no effect`;
    case 'verdict-missing':
      return `the chain ${chain} has no rule for the set ${set === null ? '' : formatSetName(set)}: ${rules} no effect`;
  }
}

function familyName(family: Family | null): string {
  return family === 4 ? 'IPv4' : 'IPv6';
}

function unknownFinding({ what, name, detail }: Unknown): Draft {
  const where =
    what === 'element'
      ? `element of the set ${name}`
      : what === 'rule'
        ? `rule of the chain ${name}`
        : `${what} ${name}`;
  return {
    kind: 'unknown',
    summary: `unknown ${where} in the table inet firezone: ${detail}`,
    rules: [],
    elements: [],
    reaches: [],
  };
}

function titleOf({ name, key, place }: RuleRef): string {
  if (name === null) return `the rule ${key}`;
  return place === null ? `the rule ${name} (${key})` : `the rule ${name} (${key}, ${place.file}:${place.line})`;
}

/** Traffic that a finding can concern: a part of a user's, or of everybody's (null). */
interface Reach {
  readonly userId: string | null;
  readonly part: TrafficSelector;
}

/** What a rule matches. */
function reachOf({ userId, destination, ports }: Rule): Reach {
  return { userId, part: { network: destination, protocol: ports?.type ?? null, ports } };
}

/** All traffic in these families. */
function listReaches(userId: string | null, families: readonly Network['family'][]): readonly Reach[] {
  return families.map((family) => {
    return { userId, part: { network: makeNetwork(family, 0n, 0), protocol: null, ports: null } };
  });
}

/** The part of an effect inside any of the reaches, which must be disjoint. */
function restrictEffect({ opens, closes }: Effect, reaches: readonly Reach[]): Effect {
  return { opens: restrictAll(opens, reaches), closes: restrictAll(closes, reaches) };
}

function restrictAll(traffic: readonly Traffic[], reaches: readonly Reach[]): readonly Traffic[] {
  const parts = traffic.flatMap((one) =>
    reaches.flatMap(({ userId, part }) => (userId === null || userId === one.user ? restrictTraffic([one], part) : [])),
  );
  const alike = groupBy(parts, ({ user, protocol, ports }) => JSON.stringify([user, protocol, ports]));
  return [...alike.values()].flatMap(([first, ...others]) => {
    if (first === undefined) return [];
    const destinations = [first, ...others].flatMap((one) => one.destinations);
    return [{ ...first, destinations: sortTexts(destinations) }];
  });
}

function sortTexts(texts: readonly string[]): readonly string[] {
  return [...new Set(texts)]
    .flatMap((text) => {
      const parsed = parseNetwork(text);
      return parsed.ok ? [parsed.value.network] : [];
    })
    .sort(compareNetworks)
    .map(({ text }) => text);
}
