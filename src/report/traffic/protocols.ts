import type { Protocol } from '../../model/state.ts';
import { intersectPorts, type PortSet, subtractPorts } from '../../policy/port-set.ts';
import { formatShortPorts } from '../../policy/words.ts';

/** The traffic at one address as one set of numbers, in which each protocol has a block of its own. */
export type Protocols = PortSet;

/** Blocks do not touch, so that no range reaches into two; other protocols (ICMP, …) weigh as much as tcp and udp together. */
const blocks = {
  tcp: { low: 0, high: 65_535 },
  udp: { low: 100_000, high: 165_535 },
  other: { low: 200_000, high: 331_071 },
} as const;
export const everything: Protocols = Object.values(blocks);

export const noProtocols: Protocols = [];

/** Traffic of one protocol, of all its ports where none are given. */
export function toProtocols(protocol: Protocol, ports: PortSet | null): Protocols {
  const block = blocks[protocol];
  return ports === null ? [block] : ports.map(({ low, high }) => ({ low: block.low + low, high: block.low + high }));
}

/** The traffic in words: empty for all of it, `tcp 443`, `tcp but for 80, 443`, or `everything but tcp 443` where shorter. */
export function formatProtocols(protocols: Protocols): string {
  const missing = subtractPorts(everything, protocols);
  if (missing.length === 0) return '';
  const plain = listedText(protocols);
  if (!holdsOther(protocols)) return plain;
  const inverse = `everything but ${listedText(missing)}`;
  return inverse.length < plain.length ? inverse : plain;
}

function listedText(protocols: Protocols): string {
  const other = holdsOther(protocols) ? 'other protocols' : '';
  return [portsText('tcp', protocols), portsText('udp', protocols), other].filter(Boolean).join(', ');
}

function holdsOther(protocols: Protocols): boolean {
  return protocols.at(-1)?.high === blocks.other.high;
}

function portsText(protocol: 'tcp' | 'udp', protocols: Protocols): string {
  const block = blocks[protocol];
  const ports = intersectPorts(protocols, [block]);
  if (ports.length === 0) return '';
  const missing = subtractPorts([block], ports);
  if (missing.length === 0) return protocol;
  const list = (set: PortSet): string =>
    set.map(({ low, high }) => formatShortPorts({ low: low - block.low, high: high - block.low })).join(', ');
  return missing.length < ports.length ? `${protocol} but for ${list(missing)}` : `${protocol} ${list(ports)}`;
}
