import { getWidth, makeNetwork } from '../../model/address.ts';
import type { DesiredRule } from '../../model/rule.ts';
import type { Protocol } from '../../model/state.ts';
import { type Finding, type Linted, quoteName } from './finding.ts';

/** Ports closed while the same host answers by another way, and users whom no global rule reaches. */
export function lintProtocols(linted: Linted): readonly Finding[] {
  return linted.rules.flatMap((rule) => [
    ...icmpLeftOpen(rule, linted),
    ...transportLeftOpen(rule, linted),
    ...userExempt(rule),
  ]);
}

/** Whether the lowest address of the rule's destination can be reached in another way. */
function isOpen({ rule }: DesiredRule, protocol: Protocol, port: number, { leaders }: Linted): boolean {
  const { family, first } = rule.destination;
  const address = makeNetwork(family, first, getWidth(family));
  return leaders.of({ user: rule.userId, address, protocol, port })[0]?.rule.action !== 'drop';
}

function icmpLeftOpen(rule: DesiredRule, linted: Linted): readonly Finding[] {
  if (rule.rule.action !== 'drop' || rule.rule.ports === null || !isOpen(rule, 'other', 0, linted)) return [];
  const summary = `${quoteName(rule)} closes ports of ${rule.rule.destination.text}; ICMP and all protocols but tcp and udp still pass.`;
  const hint =
    'If the destination should be out of reach, drop it without ports and accept the ports that should pass.';
  return [{ code: 'icmp-left-open', place: rule.place, summary, hint }];
}

/** Services that are reached by tcp and udp alike. */
const twins = [
  { port: 443, what: 'HTTP/3 (QUIC) uses udp port 443 beside tcp' },
  { port: 53, what: 'DNS uses port 53 of udp and tcp' },
] as const;

function transportLeftOpen(rule: DesiredRule, linted: Linted): readonly Finding[] {
  const { action, ports } = rule.rule;
  if (action !== 'drop' || ports === null) return [];
  const other = ports.type === 'tcp' ? 'udp' : 'tcp';
  const twin = twins.find(({ port }) => ports.low <= port && port <= ports.high && isOpen(rule, other, port, linted));
  if (twin === undefined || (twin.port === 443 && ports.type === 'udp')) return [];
  const summary = `${quoteName(rule)} closes ${ports.type} port ${twin.port} and leaves ${other} port ${twin.port} open; ${twin.what}.`;
  const hint = `Add a rule that drops ${other} port ${twin.port} for the same destination.`;
  return [{ code: 'transport-left-open', place: rule.place, summary, hint }];
}

function userExempt(rule: DesiredRule): readonly Finding[] {
  const { action, destination, ports, userId } = rule.rule;
  if (action !== 'accept' || destination.prefix !== 0 || ports !== null || userId === null) return [];
  const summary = `${quoteName(rule)} exempts the user from every global rule for IPv${destination.family}: a user's own rules come first.`;
  const hint = 'If that is not meant, accept only the destinations that the user needs.';
  return [{ code: 'user-exempt', place: rule.place, summary, hint }];
}
