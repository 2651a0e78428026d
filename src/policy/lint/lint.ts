import { contains, type Family, Network } from '../../model/address.ts';
import { type Intervals, toIntervals, unionIntervals } from '../../model/intervals.ts';
import { compareProblems, type Problem } from '../../model/problem.ts';
import type { Action, DesiredRule } from '../../model/rule.ts';
import type { DesiredState, Protocol } from '../../model/state.ts';
import { getLane, getLaneRules, indexRules, type RuleIndex } from '../rule-index.ts';
import { lintConfiguration } from './configuration-findings.ts';
import { type Finding, type Linted, quoteName, toProblems } from './finding.ts';
import { findLeaders } from './leaders.ts';
import { lintRuleReach, listCorners } from './rule-reach-findings.ts';
import { lintUsers } from './user-findings.ts';

/** Findings about manifests without errors that mean something else than they seem to, sorted (docs/reference/lint.md). */
export function lint(desired: DesiredState): readonly Problem[] {
  const { rules } = desired;
  const index = indexRules(rules);
  const linted: Linted = { desired, rules, index, leaders: findLeaders(index) };
  const findings = [
    ...lintRuleReach(linted),
    ...[null, ...index.users].flatMap((user) => [...leftOpen(index, user, 4), ...leftOpen(index, user, 6)]),
    ...rules.flatMap(mapped),
    ...rules.flatMap((rule) => [
      ...icmpLeftOpen(rule, linted),
      ...transportLeftOpen(rule, linted),
      ...userExempt(rule),
    ]),
    ...lintUsers(linted),
    ...lintConfiguration(linted),
  ];
  return [...toProblems(findings)].sort(compareProblems);
}

/** One family closed by drop rules, at least one of which drops something, while the other stays open. */
function leftOpen(index: RuleIndex<DesiredRule>, user: string | null, closed: Family): readonly Finding[] {
  const open = closed === 4 ? 6 : 4;
  const own = getLaneRules(index, user, getLane(closed, 'other')).items;
  const areaOf = (action: Action) =>
    toIntervals(own.flatMap(({ rule }) => (rule.action === action ? rule.destination : [])));
  const widest = own
    .filter(({ rule }) => rule.action === 'drop')
    .sort((a, b) => a.rule.destination.prefix - b.rule.destination.prefix)[0];
  if (widest === undefined || !isWhole(areaOf('drop'), closed) || isWhole(areaOf('accept'), closed)) return [];
  const covered = [...new Set([user, null])]
    .map((scope) => getLaneRules(index, scope, getLane(open, 'other')).named)
    .reduce((a, b) => unionIntervals(a, b));
  if (isWhole(covered, open)) return [];
  const everything = open === 6 ? '::/0' : '0.0.0.0/0';
  const whose = user === null ? '' : ' for this user';
  const summary = `Drop rules such as ${quoteName(widest)} close all of IPv${closed}${whose} but what accept rules open, and IPv${open} stays open: rules never reach from one family into the other.`;
  const hint = `Add a drop rule for ${everything} in place of any for parts of it, and accept rules for what should pass.`;
  return [{ code: open === 6 ? 'ipv6-left-open' : 'ipv4-left-open', place: widest.place, summary, hint }];
}

function isWhole([covered]: Intervals, family: Family): boolean {
  return covered?.first === 0n && covered.last === new Network(family, 0n, 0).last;
}

const mappedRange = new Network(6, 0xffff_0000_0000n, 96);

/** IPv6 spellings of IPv4 addresses. */
function mapped(rule: DesiredRule): readonly Finding[] {
  const { destination } = rule.rule;
  if (!contains(mappedRange, destination)) return [];
  const summary = `${quoteName(rule)} names the IPv4-mapped IPv6 address ${destination.text}: it never matches IPv4 traffic.`;
  return [{ code: 'ipv4-mapped', place: rule.place, summary, hint: 'Write the IPv4 address.' }];
}

/** Whether there is another way to what the rule closes at one of its corners, on this port if one is given. */
function isOpen(rule: DesiredRule, { leaders }: Linted, protocol: Protocol, asked?: number): boolean {
  return listCorners(rule.rule).some((corner) => {
    const packet = { ...corner, port: asked ?? corner.port };
    return leaders.of(packet)[0] === rule && leaders.of({ ...packet, protocol })[0]?.rule.action !== 'drop';
  });
}

function icmpLeftOpen(rule: DesiredRule, linted: Linted): readonly Finding[] {
  if (rule.rule.action !== 'drop' || rule.rule.ports === null || !isOpen(rule, linted, 'other')) return [];
  const summary = `${quoteName(rule)} closes ports of ${rule.rule.destination.text}; ICMP and all protocols but tcp and udp still pass.`;
  const hint = 'To close the destination, drop it without ports and accept the ports that should pass.';
  return [{ code: 'icmp-left-open', place: rule.place, summary, hint }];
}

/** Services that are reached by tcp and udp alike, and those of the two that somebody closes who means the service. */
const twins = [
  { port: 443, of: 'tcp', what: 'HTTP/3 (QUIC) uses udp port 443 beside tcp' },
  { port: 53, of: 'tcp and udp', what: 'DNS uses port 53 of udp and tcp' },
] as const;

function transportLeftOpen(rule: DesiredRule, linted: Linted): readonly Finding[] {
  const { action, ports } = rule.rule;
  if (action !== 'drop' || ports === null) return [];
  const other = ports.type === 'tcp' ? 'udp' : 'tcp';
  const twin = twins.find(
    ({ port, of }) =>
      of.includes(ports.type) && ports.low <= port && port <= ports.high && isOpen(rule, linted, other, port),
  );
  if (twin === undefined) return [];
  const summary = `${quoteName(rule)} closes ${ports.type} port ${twin.port} and leaves ${other} port ${twin.port} open; ${twin.what}.`;
  const hint = `Drop ${other} port ${twin.port} for the same destination, and take it out of drop rules for parts of that.`;
  return [{ code: 'transport-left-open', place: rule.place, summary, hint }];
}

function userExempt(rule: DesiredRule): readonly Finding[] {
  const { action, destination, ports, userId } = rule.rule;
  if (action !== 'accept' || destination.prefix !== 0 || ports !== null || userId === null) return [];
  const summary = `${quoteName(rule)} exempts the user from every global rule for IPv${destination.family}: a user's own rules come first.`;
  const hint = 'If that is not meant, accept only the destinations that the user needs.';
  return [{ code: 'user-exempt', place: rule.place, summary, hint }];
}
