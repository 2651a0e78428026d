import { formatInstant } from '../model/instant.ts';
import { formatPortRange, type PortRange } from '../model/port-range.ts';
import { escapeControls } from '../model/printable.ts';
import type { Rule } from '../model/rule.ts';
import type { PolicyCase } from '../model/state.ts';
import type { CaseFailure } from './tests.ts';
import type { Packet } from './verdict.ts';

export type UserNames = ReadonlyMap<string, string>;

/** A user for people: the name the manifests give, else the first characters of the UUID. */
export function formatUser(id: string, names: UserNames): string {
  return escapeControls(names.get(id) ?? `user ${id.slice(0, 8)}`);
}

/** `accept 10.0.0.0/8 tcp 443 for alice`. */
export function formatRule(rule: Rule, names: UserNames): string {
  const ports = rule.ports === null ? '' : ` ${rule.ports.type} ${formatShortPorts(rule.ports)}`;
  const user = rule.userId === null ? '' : ` for ${formatUser(rule.userId, names)}`;
  return `${rule.action} ${rule.destination.text}${ports}${user}`;
}

/** `443` or `8000-8010`: how people and the JSON output write ports. */
export function formatShortPorts(range: PortRange): string {
  return formatPortRange(range).replaceAll(' ', '');
}

/** `tcp 10.1.2.3 port 443 from a device of alice`. */
export function describePacket({ user, address, protocol, port }: Packet, names: UserNames): string {
  const what =
    protocol === 'other'
      ? `${address.text} (ICMP, or anything but tcp and udp)`
      : `${protocol} ${address.text} port ${port}`;
  return `${what} from ${user === null ? "nobody's device" : `a device of ${names.get(user) ?? user}`}`;
}

/** The traffic of a case: `10.0.0.0/8 tcp 443 from alice`. */
export function describeCase({ user, destination, protocols, ports, at }: PolicyCase, names: UserNames): string {
  const portText = ports.low === 0 && ports.high === 65_535 ? '' : ` ${formatShortPorts(ports)}`;
  const what = protocols.length === 3 ? '' : ` ${protocols.join(' and ')}${portText}`;
  const source = user === null ? 'nobody' : user === 'any' ? 'any user' : (names.get(user) ?? user);
  return `${destination.text}${what} from ${source}${at === undefined ? '' : ` at ${formatInstant(at.time)}`}`;
}

/** Why a case fails, as one sentence; `rule` is what the deciding rule goes by. */
export function describeFailure(
  one: PolicyCase,
  failure: Omit<CaseFailure<never>, 'rule'>,
  words: { readonly names: UserNames; readonly rule: string | null },
): string {
  const { packet, verdict, edgePortsOnly } = failure;
  const by = words.rule === null ? 'no rule matches, and the default is accept' : `${words.rule} decides`;
  const edge = edgePortsOnly
    ? ` Only ports 0 and 65535 fail: no port rule can cover them, so write \`port: 1-65534\` if they do not matter.`
    : '';
  return `\`${one.name}\` expects ${one.expect} for ${describeCase(one, words.names)}; ${describePacket(packet, words.names)} gets ${verdict}: ${by}.${edge}`;
}
