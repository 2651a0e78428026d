import { fail, ok, type Result } from './result.ts';

export type PortType = 'tcp' | 'udp';

/** Both ends included, 0..65535. */
export type PortRange = Readonly<Record<'low' | 'high', number>>;

/** The ports of one transport protocol that a rule is restricted to. */
export interface Ports extends PortRange {
  readonly type: PortType;
}

/** Why a text is no port range; the server truncates most of these silently (observed: recordings/rule_create_ports). */
export type PortFault = 'empty' | 'list' | 'reversed' | 'bounds' | 'not-a-range';

/** Parses `443`, `80-443`, `80 - 443` (as text or number); everything that the server would truncate is a fault. */
export function parsePortRange(input: string | number, bounds: PortRange): Result<PortRange, PortFault> {
  const text = String(input).trim();
  if (text === '') return fail('empty');
  const match = /^([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?$/.exec(text);
  if (match === null) return fail(/^[0-9\s-]+([,;][0-9\s-]+)+$/.test(text) ? 'list' : 'not-a-range');
  const low = Number(match[1]);
  const high = match[2] === undefined ? low : Number(match[2]);
  if (low > high) return fail('reversed');
  if (low < bounds.low || high > bounds.high) return fail('bounds');
  return ok({ low, high });
}

/** The API's canonical text: `80` or `80 - 90`. */
export function formatPortRange(range: PortRange): string {
  return range.low === range.high ? String(range.low) : `${range.low} - ${range.high}`;
}

/** Whether both restrict the same protocol and share a port. */
export function portsIntersect(a: Ports, b: Ports): boolean {
  return a.type === b.type && a.low <= b.high && b.low <= a.high;
}
