import type { AddressFault, ParsedNetwork } from '../model/address.ts';
import type { PortBounds, PortFault } from '../model/port-range.ts';
import type { Finding } from './check-shape.ts';

interface Sentence {
  readonly summary: string;
  readonly hint: string;
}

const addressSentences: Readonly<Record<AddressFault, Sentence>> = {
  empty: { summary: 'The address is empty.', hint: 'Write an IP address or a network, such as `10.0.0.0/8`.' },
  'not-an-address': {
    summary: 'This is not an IP address or network.',
    hint: 'Write one such as `10.0.0.0/8` or `2001:db8::/32`.',
  },
  octal: {
    summary: 'A part of this address has a leading zero, which the server reads as an octal number.',
    hint: 'Write each part without leading zeros.',
  },
  short: {
    summary: 'This address does not have four decimal parts; the server would fill in the rest in its own way.',
    hint: 'Write all four parts, such as `10.0.0.0/8`.',
  },
  zone: {
    summary: 'This address has a zone (`%…`), which the server drops silently.',
    hint: 'Write the address without it.',
  },
  mask: {
    summary: 'The mask of this network is out of bounds or not a plain number.',
    hint: 'Write 0 to 32 for IPv4, 0 to 128 for IPv6, without leading zeros.',
  },
  'dotted-mask': {
    summary: 'The mask of this network is written with dots.',
    hint: 'Write its length, such as `/24`.',
  },
  brackets: { summary: 'This address stands in brackets.', hint: 'Write it without the brackets.' },
  port: {
    summary: 'This address has a port.',
    hint: 'Write the port in `port_range`, and its protocol in `port_type`.',
  },
  range: { summary: 'This is a range of addresses.', hint: 'Write networks in CIDR notation, one for each rule.' },
  list: {
    summary: 'This is more than one address, or has something beside it.',
    hint: 'Write one address; in a RuleSet, a list under `destinations`.',
  },
  hostname: {
    summary: 'This is a name, not an address; the packet filter knows only addresses.',
    hint: 'Write the IP address or network; `$` and a name in braces is replaced only with `--values FILE`.',
  },
};

const portSentences: Readonly<Record<Exclude<PortFault, 'bounds'>, Sentence>> = {
  empty: { summary: 'The port is empty.', hint: 'Write a port or a range, such as `443` or `8000-8010`.' },
  list: {
    summary: 'This is more than one port; the server would keep only the first.',
    hint: 'Write one rule for each, or in a RuleSet a list: `port_range: [80, 443]`.',
  },
  reversed: { summary: 'The first port of this range is higher than the last.', hint: 'Write the lower port first.' },
  'not-a-range': {
    summary: 'This is not a port or a range of ports; the server would keep only its first digits.',
    hint: 'Write decimal ports, such as `443` or `8000-8010`.',
  },
};

/** The finding for a text that is no address; its code is `address-` and the fault. */
export function describeAddressFault(fault: AddressFault, offset: number): Finding {
  return { problem: { code: `address-${fault}`, severity: 'error', ...addressSentences[fault] }, offset };
}

/** The finding for a network whose text has bits set beyond its mask: it means the whole network. */
export function describeHostBits({ network, written }: ParsedNetwork, offset: number): Finding {
  const summary = `${written} has bits set beyond its mask: it means the whole network ${network.text}.`;
  const hint = `Write ${network.text}, or the address without a mask if only that is meant.`;
  return { problem: { code: 'host-bits', severity: 'warning', summary, hint }, offset };
}

/** The finding for a text that is no port range; its code is `port-` and the fault. */
export function describePortFault(fault: PortFault, bounds: PortBounds, offset: number): Finding {
  const sentence =
    fault === 'bounds'
      ? { summary: 'This port is out of bounds.', hint: `Ports are ${bounds.min} to ${bounds.max} on this server.` }
      : portSentences[fault];
  return { problem: { code: `port-${fault}`, severity: 'error', ...sentence }, offset };
}
