import type { PortRange } from '../model/port-range.ts';
import { escapeControls, joinSome } from '../model/printable.ts';
import type { Place } from '../model/problem.ts';
import { type Rule, type RuleNotes, toWire } from '../model/rule.ts';
import { explainPacket, findUnnamedPort, listPortVerdicts, type RuleTraffic } from '../policy/explain-packet.ts';
import type { RuleIndex } from '../policy/rule-index.ts';
import type { Packet } from '../policy/verdict.ts';
import { describePacket, formatRule, formatShortPorts, type UserNames } from '../policy/words.ts';
import { formatNotes, makeNotesMembers } from './change-words.ts';
import { formatTraffic } from './page.ts';
import { createPaint } from './paint.ts';
import { formatPlace } from './problems.ts';
import { makePeople } from './traffic/people.ts';
import { makeTrafficDocument } from './traffic-json.ts';

/** A rule with all that it goes by: from a manifest a name and a place, from the server an id. */
export interface NamedRule extends RuleNotes {
  readonly rule: Rule;
  readonly name: string | null;
  readonly id: string | null;
  readonly place: Place | null;
}

type PacketReport = ReturnType<typeof reportPacket>;

/** The report on one packet; with `port` null on one whose port no rule names, and on the verdicts of all ports. */
export function reportPacket(
  { port, ...source }: Omit<Packet, 'port'> & { readonly port: number | null },
  index: RuleIndex<NamedRule>,
  bounds: PortRange,
) {
  const asked = port !== null || source.protocol === 'other';
  const packet = { ...source, port: port ?? (asked ? 0 : findUnnamedPort(index, source)) };
  // No port was asked about: the packet's is one that no rule names, and these are the verdicts of all.
  const ports = asked ? null : listPortVerdicts(index, source);
  return { packet, ports, explanation: explainPacket(index, packet, bounds) };
}

/** The verdict on a packet, why, and what would change it. */
export function renderPacketReport(report: PacketReport, names: UserNames, color: boolean): string {
  const { packet, ports, explanation } = report;
  const paint = createPaint(color);
  const { verdict, rule, overridden, removals, additions } = explanation;
  const other = verdict === 'accept' ? 'dropped' : 'accepted';
  const tone = verdict === 'accept' ? 'risk' : 'plain';
  const lines = [`${escapeControls(describePacket(packet, names))}: ${paint(tone, verdict)}`];
  lines.push(`  decided by  ${formatDecider(rule, names)}`);
  for (const item of overridden) lines.push(`  overrides   ${formatNamedRule(item, names)}`);
  if (ports !== null && ports.length > 1) {
    const isNamed = [rule, ...overridden].some((one) => one?.rule.ports);
    const taken = isNamed ? `port ${packet.port}, since rules name every one` : 'a port that no rule names';
    const unlike = ports.filter((range) => range.verdict !== verdict).map(formatShortPorts);
    lines.push(`  by port     ${other} on ${joinSome(unlike, 12)}; asked without --port: ${taken}`);
  }
  if (removals !== null) lines.push(`  would be ${other} without ${removals.map(labelOf).join(', ')}`);
  const kinds = additions.map(({ action, scope, withPorts }) => {
    return `${action} ${withPorts ? 'this port' : 'all ports'} for ${scope === 'user' ? 'this user' : 'everyone'}`;
  });
  if (kinds.length > 0) lines.push(`  would be ${other} with a rule to ${kinds.join(', or to ')}`);
  if (removals === null && kinds.length === 0) lines.push(`  no rule can change that`);
  return `${lines.join('\n')}\n`;
}

/** A packet for machines. */
export function makePacketDocument({ user, address, protocol, port }: Packet): Readonly<Record<string, unknown>> {
  return { user, destination: address.text, protocol, port: protocol === 'other' ? null : port };
}

/** The packet's report as members of a JSON document. */
export function makePacketMembers({ packet, ports, explanation }: PacketReport): Readonly<Record<string, unknown>> {
  const { verdict, rule, overridden, removals, additions } = explanation;
  return {
    packet: makePacketDocument(packet),
    verdict,
    rule: rule && makeNamedMembers(rule),
    overridden: overridden.map(makeNamedMembers),
    removals: removals?.map(makeNamedMembers) ?? null,
    additions: additions.map(({ action, scope, withPorts }) => ({ action, scope, with_ports: withPorts })),
    ...(ports && { by_port: ports.map((range) => ({ ports: formatShortPorts(range), verdict: range.verdict })) }),
  };
}

/** What a rule decides, and what it would decide alone. */
export function renderRuleReport(rule: NamedRule, traffic: RuleTraffic, names: UserNames): string {
  const people = makePeople(traffic.users, { userNames: names });
  const [decides, alone] = [formatTraffic(traffic.decides, people), formatTraffic(traffic.alone, people)];
  const same = decides.join() === alone.join();
  const first = decides.length === 0 ? 'decides nothing: other rules always come first' : 'decides';
  return [
    formatNamedRule(rule, names),
    `  ${first}`,
    ...decides.map((line) => `    ${line}`),
    ...(same
      ? ['  and would decide the same if it were alone']
      : ['  alone it would decide', ...alone.map((line) => `    ${line}`)]),
    '',
  ].join('\n');
}

/** The rule's report as members of a JSON document. */
export function makeRuleMembers(rule: NamedRule, traffic: RuleTraffic): Readonly<Record<string, unknown>> {
  return {
    rule: makeNamedMembers(rule),
    decides: traffic.decides.map(makeTrafficDocument),
    alone: traffic.alone.map(makeTrafficDocument),
  };
}

/** The rule that decides, or that none does. */
export function formatDecider(rule: NamedRule | null, names: UserNames): string {
  return rule === null ? 'no rule: what none matches is accepted' : formatNamedRule(rule, names);
}

/** A rule with its name, its place and its notes. */
function formatNamedRule(item: NamedRule, names: UserNames): string {
  const place = item.place === null ? '' : `  ${formatPlace(item.place)}`;
  const notes = formatNotes(item);
  return `${labelOf(item)}  ${formatRule(item.rule, names)}${place}${notes === '' ? '' : `  (${notes})`}`;
}

function labelOf({ name, id }: NamedRule): string {
  return escapeControls(name ?? id ?? 'rule');
}

/** The same for machines. */
export function makeNamedMembers(item: NamedRule): Readonly<Record<string, unknown>> {
  const { rule, name, id, place } = item;
  return { ...makeNotesMembers(item), name, id, file: place?.file ?? null, line: place?.line ?? null, ...toWire(rule) };
}
