import { compareNetworks, intersects, type Network } from './address.ts';
import { formatPortRange, type Ports, portsIntersect } from './port-range.ts';
import { compareText, type Place } from './problem.ts';

export type Action = 'accept' | 'drop';

/** A firewall rule in canonical form. `userId` is a lower-case UUID, or null for a global rule. */
export interface Rule {
  readonly action: Action;
  readonly destination: Network;
  readonly ports: Ports | null;
  readonly userId: string | null;
}

/** A rule that a manifest asks for. `name` is unique over all manifests; an expanded one is `SET/RULE/…`. */
export interface DesiredRule {
  readonly name: string;
  readonly rule: Rule;
  readonly place: Place;
}

/** A rule that the API listed in this pass. `destinationText` is the stored spelling, host bits and all. */
export interface LiveRule {
  readonly id: string;
  readonly rule: Rule;
  readonly destinationText: string;
  readonly insertedAt: string;
  readonly updatedAt: string;
}

/** Whether the rule was changed in place: the packet filter may hold something else than the API shows (docs/server.md). */
export function isModifiedInPlace(live: LiveRule): boolean {
  return live.insertedAt !== live.updatedAt;
}

/** The rule's identity: equal exactly for rules that mean the same to the server, whatever their host bits. */
export function ruleKey(rule: Rule): string {
  const ports = rule.ports === null ? '' : ` ${rule.ports.type} ${rule.ports.low}-${rule.ports.high}`;
  return `${rule.action} ${rule.destination.text}${ports} ${rule.userId ?? '*'}`;
}

/** Total order on canonical rules: user (global first), destination, ports, action. */
export function compareRules(a: Rule, b: Rule): number {
  return (
    compareText(a.userId ?? '', b.userId ?? '') ||
    compareNetworks(a.destination, b.destination) ||
    comparePorts(a.ports, b.ports) ||
    compareText(a.action, b.action)
  );
}

function comparePorts(a: Ports | null, b: Ports | null): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? -1 : 1;
  return compareText(a.type, b.type) || a.low - b.low || a.high - b.high;
}

/**
 * Whether the server refuses to hold both: same action, same user scope, same port presence, intersecting networks and,
 * with ports, intersecting ports of one type (observed: recordings/rule_overlap).
 */
export function collides(a: Rule, b: Rule): boolean {
  if (a.action !== b.action || a.userId !== b.userId || !intersects(a.destination, b.destination)) return false;
  if (a.ports === null || b.ports === null) return a.ports === b.ports;
  return portsIntersect(a.ports, b.ports);
}

/** The writable fields as the API spells them. */
export interface WireRule {
  readonly action: Action;
  readonly destination: string;
  readonly port_range: string | null;
  readonly port_type: string | null;
  readonly user_id: string | null;
}

/** The rule's fields as sent to the API: canonical text, host bits cleared, ports always as text. */
export function toWire(rule: Rule): WireRule {
  return {
    action: rule.action,
    destination: rule.destination.text,
    port_range: rule.ports === null ? null : formatPortRange(rule.ports),
    port_type: rule.ports === null ? null : rule.ports.type,
    user_id: rule.userId,
  };
}
