import { compareNetworks, Network, readNetworks } from '../model/address.ts';
import { groupBy } from '../model/group-by.ts';
import { formatRuleKey, isModifiedInPlace, type LiveRule, type Rule } from '../model/rule.ts';
import { computeEffect } from '../policy/effect.ts';
import { restrictTraffic } from '../policy/reach.ts';
import type { Effect, Traffic } from '../policy/traffic.ts';
import { compareSets, getSetKind, type Leftover, toRules } from './compare.ts';
import {
  compareFindings,
  countFindings,
  type EnforcementReport,
  type Finding,
  type RuleNames,
  type RuleRef,
} from './report.ts';
import { findDefects, hasChain, listMisordered, type StructureDefect } from './structure.ts';
import type { FilterTable } from './table.ts';

/** A finding before its share of the traffic is known: that of its `parts`, which must be disjoint. */
interface Draft extends Omit<Finding, 'effect'> {
  readonly parts: readonly Part[];
}

type Part = Omit<Rule, 'action'>;

/** Compares the kernel's table with the live rules, as sets of traffic. Equal inputs in any order give equal reports. */
export function checkEnforcement(live: readonly LiveRule[], names: RuleNames, table: FilterTable): EnforcementReport {
  const { missing, surplus } = compareSets(live, table);
  const defects = findDefects(live, table);
  const refer = (rule: LiveRule): RuleRef => referTo(rule, names);
  const drafts = [
    ...missing
      .filter(([{ rule }]) => hasChain(table, rule.userId))
      .map(([rule, parts]) => missingFinding(rule, parts, refer(rule))),
    ...surplus.map((leftover) => surplusFinding(leftover, refer)),
    ...defects.map((defect) => structureFinding(defect, live, refer, table)),
    ...[...table.unknown, ...listMisordered(table)].map(({ where, detail }): Draft => {
      const summary = `unknown ${where} in the table inet firezone: ${detail}`;
      return { kind: 'unknown', summary, rules: [], elements: [], parts: [] };
    }),
  ];
  const agrees = drafts.every((draft) => draft.kind === 'unknown');
  const effect = agrees ? noEffect : trafficOf(live, table, defects);
  const findings = drafts
    .map(({ parts, ...draft }): Finding => {
      const own = { opens: restrictAll(effect.opens, parts), closes: restrictAll(effect.closes, parts) };
      return { ...draft, effect: own };
    })
    .sort(compareFindings);
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

const noEffect: Effect = { opens: [], closes: [] };

function trafficOf(live: readonly LiveRule[], table: FilterTable, defects: readonly StructureDefect[]): Effect {
  const deciding = [...table.sets.values()].filter(({ kind }) => !defects.some(({ concerns }) => concerns(kind)));
  return computeEffect(
    live.map(({ rule }) => rule),
    deciding.flatMap(({ kind, elements }) => elements.flatMap((element) => toRules(element, kind))),
  );
}

function referTo(live: LiveRule, names: RuleNames): RuleRef {
  const key = formatRuleKey(live.rule);
  const named = names.get(key);
  return { id: live.id, key, name: named?.name ?? null, place: named?.place ?? null };
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

function structureFinding(
  { kind, what, userId, family, concerns }: StructureDefect,
  live: readonly LiveRule[],
  refer: (live: LiveRule) => RuleRef,
  { dormant = false }: FilterTable,
): Draft {
  const rules = live.filter((entry) => concerns(getSetKind(entry))).map(refer);
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
