import { contains, type Family, getWidth, makeNetwork } from '../../model/address.ts';
import type { DesiredRule } from '../../model/rule.ts';
import { unionIntervals } from '../intervals.ts';
import { getLane, getLaneRules, type RuleIndex } from '../rule-index.ts';
import { type Finding, type Linted, quoteName } from './finding.ts';

/** One family closed while the other stays open, and IPv6 spellings of IPv4 addresses. */
export function lintFamilies({ rules, index }: Linted): readonly Finding[] {
  return [
    ...[null, ...index.users].flatMap((user) => [
      ...leftOpen(index, user, { closed: 4, open: 6 }),
      ...leftOpen(index, user, { closed: 6, open: 4 }),
    ]),
    ...rules.flatMap(mapped),
  ];
}

interface Families {
  readonly closed: Family;
  readonly open: Family;
}

function leftOpen(index: RuleIndex<DesiredRule>, user: string | null, { closed, open }: Families): readonly Finding[] {
  const own = getLaneRules(index, user, getLane(closed, 'other'));
  const [whole] = own.named;
  const isClosed = whole?.first === 0n && whole.last === 2n ** BigInt(getWidth(closed)) - 1n;
  const widest = own.items
    .filter(({ rule }) => rule.action === 'drop')
    .sort((a, b) => a.rule.destination.prefix - b.rule.destination.prefix)[0];
  if (!isClosed || widest === undefined) return [];
  const scopes = user === null ? [null] : [user, null];
  const [covered] = scopes
    .map((scope) => getLaneRules(index, scope, getLane(open, 'other')).named)
    .reduce((a, b) => unionIntervals(a, b));
  if (covered?.first === 0n && covered.last === 2n ** BigInt(getWidth(open)) - 1n) return [];
  const everything = open === 6 ? '::/0' : '0.0.0.0/0';
  const whose = user === null ? '' : ' for this user';
  const summary = `IPv${closed} is closed${whose} by ${quoteName(widest)}, and IPv${open} stays open: rules never reach from one family into the other.`;
  const hint = `Add a drop rule for ${everything}, and accept rules for what should pass.`;
  return [{ code: open === 6 ? 'ipv6-left-open' : 'ipv4-left-open', place: widest.place, summary, hint }];
}

const mappedRange = makeNetwork(6, 0xffff_0000_0000n, 96);

function mapped(rule: DesiredRule): readonly Finding[] {
  const { destination } = rule.rule;
  if (!contains(mappedRange, destination)) return [];
  const summary = `${quoteName(rule)} names the IPv4-mapped IPv6 address ${destination.text}: it never matches IPv4 traffic.`;
  return [{ code: 'ipv4-mapped', place: rule.place, summary, hint: 'Write the IPv4 address.' }];
}
