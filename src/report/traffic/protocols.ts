import { combinePorts, countPorts, getLastPort, isSamePorts, type PortSet } from '../../policy/port-set.ts';
import { formatShortPorts } from '../rule-text.ts';

/** The traffic at one address: tcp ports, udp ports, and whether everything else (ICMP, …) belongs to it. */
export interface Protocols {
  readonly tcp: PortSet;
  readonly udp: PortSet;
  readonly other: boolean;
}

const everyPort: PortSet = [{ low: 0, high: getLastPort('tcp') }];

export const noProtocols: Protocols = { tcp: [], udp: [], other: false };
export const allProtocols: Protocols = { tcp: everyPort, udp: everyPort, other: true };

/** The traffic for which `keep(in a, in b)` holds; `keep(false, false)` must be false. */
export function combineProtocols(a: Protocols, b: Protocols, keep: (inA: boolean, inB: boolean) => boolean): Protocols {
  return {
    tcp: combinePorts(a.tcp, b.tcp, keep),
    udp: combinePorts(a.udp, b.udp, keep),
    other: keep(a.other, b.other),
  };
}

/** Traffic of `a` that is not in `b`. */
export function subtractProtocols(a: Protocols, b: Protocols): Protocols {
  return combineProtocols(a, b, (inA, inB) => inA && !inB);
}

/** Whether there is none. */
export function isNoProtocols({ tcp, udp, other }: Protocols): boolean {
  return tcp.length === 0 && udp.length === 0 && !other;
}

/** Whether both are the same traffic. */
export function isSameProtocols(a: Protocols, b: Protocols): boolean {
  return a.other === b.other && isSamePorts(a.tcp, b.tcp) && isSamePorts(a.udp, b.udp);
}

/** How much traffic; only for choosing the larger of two. */
export function measureProtocols({ tcp, udp, other }: Protocols): number {
  return countPorts(tcp) + countPorts(udp) + (other ? 2 ** 17 : 0);
}

/** Equal for equal traffic. */
export function formatProtocolsKey({ tcp, udp, other }: Protocols): string {
  return `${portsKey(tcp)}/${portsKey(udp)}/${other ? 1 : 0}`;
}

function portsKey(ports: PortSet): string {
  return ports.map(({ low, high }) => `${low}-${high}`).join(',');
}

/** The traffic in words: empty for all of it, `tcp 443`, `tcp but for 80, 443`, or `everything but tcp 443` where shorter. */
export function formatProtocols(protocols: Protocols): string {
  const missing = subtractProtocols(allProtocols, protocols);
  if (isNoProtocols(missing)) return '';
  const plain = listedText(protocols);
  if (!protocols.other) return plain;
  const inverse = `everything but ${listedText(missing)}`;
  return inverse.length < plain.length ? inverse : plain;
}

function listedText({ tcp, udp, other }: Protocols): string {
  const parts = [portsText('tcp', tcp), portsText('udp', udp), other ? 'other protocols' : ''];
  return parts.filter((part) => part !== '').join(', ');
}

function portsText(protocol: string, ports: PortSet): string {
  if (ports.length === 0) return '';
  if (isSamePorts(ports, everyPort)) return protocol;
  const missing = combinePorts(everyPort, ports, (inAll, inPorts) => inAll && !inPorts);
  const list = (set: PortSet): string => set.map(formatShortPorts).join(', ');
  return missing.length < ports.length ? `${protocol} but for ${list(missing)}` : `${protocol} ${list(ports)}`;
}
