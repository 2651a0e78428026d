import { formatPortRange, type PortRange } from '../model/port-range.ts';
import { escapeControls } from '../model/printable.ts';
import type { Rule } from '../model/rule.ts';

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
