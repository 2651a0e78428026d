import { type AddressFault, coverRange, type ParsedNetwork, parseNetwork } from '../model/address.ts';
import type { PortFault, PortRange } from '../model/port-range.ts';
import { joinSome } from '../model/printable.ts';
import { makeWarning } from '../model/problem.ts';
import type { Unplaced, Words } from './node.ts';

const addressSentences: Readonly<Record<AddressFault, Words>> = {
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
  zone: { summary: 'This address has a zone (`%…`), which the server drops silently.', hint: 'Write it without.' },
  mask: {
    summary: 'The mask of this network is out of bounds or not a plain number.',
    hint: 'Write 0 to 32 for IPv4, 0 to 128 for IPv6, without leading zeros.',
  },
  'dotted-mask': {
    summary: 'The mask of this network is written with dots, and no prefix length means the same.',
    hint: 'Write a prefix length, such as `/24`.',
  },
  brackets: { summary: 'This address is in brackets.', hint: 'Write it without the brackets.' },
  port: { summary: 'This address has a port.', hint: 'Write the port in `port_range`, its protocol in `port_type`.' },
  range: { summary: 'This is a range of addresses.', hint: 'Write the networks that cover it in CIDR notation.' },
  list: {
    summary: 'This is more than one address, or has something beside it.',
    hint: 'Write one address; in a RuleSet, a list under `destinations`.',
  },
  hostname: {
    summary: 'This is a name, and the packet filter of the server knows only IP addresses.',
    hint: 'Write the address of that host, or a network such as `10.0.0.0/8`; a `kind: Network` is `{network: NAME}` in a RuleSet.',
  },
};

/** What people write for every address. */
const everyAddress = /^(?:any|all|every|everything|everywhere|internet|world|default|\*)$/i;

/** What is wrong with this text where the fault alone says too little; null where it says enough. */
function explainText(fault: AddressFault, text: string): Words | null {
  if (everyAddress.test(text)) {
    const hint = 'Write `0.0.0.0/0` for all of IPv4; IPv6 needs a rule of its own, with `::/0`.';
    return { summary: 'There is no word for every address.', hint };
  }
  if (text.includes('://')) {
    return { ...addressSentences.hostname, summary: 'This is a URL, and the packet filter knows only IP addresses.' };
  }
  const network = fault === 'dotted-mask' ? readDottedMask(text) : readWildcard(text);
  if (network !== null) {
    const what = fault === 'dotted-mask' ? 'The mask of this network is written with dots.' : 'This has a wildcard.';
    return { summary: what, hint: `Write \`${network}\`.` };
  }
  const cover = fault === 'range' ? readRange(text) : null;
  return cover === null ? null : { ...addressSentences.range, hint: cover };
}

/** `10.0.0.0/255.0.0.0` as `10.0.0.0/8`; null when the mask is no prefix. */
function readDottedMask(text: string): string | null {
  const [address = '', mask = ''] = text.split('/');
  const parsed = parseNetwork(mask);
  if (!parsed.ok || parsed.value.network.family !== 4) return null;
  const bits = parsed.value.network.first.toString(2).padStart(32, '0');
  const network = /^1*0*$/.test(bits) ? parseNetwork(`${address}/${bits.replaceAll('0', '').length}`) : null;
  return network?.ok === true ? network.value.network.text : null;
}

/** `10.0.*.*` as `10.0.0.0/16`. */
function readWildcard(text: string): string | null {
  const parts = text.split('.');
  const fixed = parts.indexOf('*');
  if (fixed < 1 || parts.length > 4 || parts.slice(fixed).some((part) => part !== '*')) return null;
  const address = [...parts.slice(0, fixed), ...new Array<string>(4 - fixed).fill('0')].join('.');
  const network = parseNetwork(`${address}/${8 * fixed}`);
  return network.ok ? network.value.network.text : null;
}

const mostListed = 8;

/** What to write for `10.0.0.1-10.0.0.20` or `10.0.0.1-20`. */
function readRange(text: string): string | null {
  const [low = '', high = ''] = text.split(/\s*[-–]\s*/);
  const from = parseNetwork(low);
  const to = parseNetwork(/^[0-9]+$/.test(high) && low.includes('.') ? low.replace(/[0-9]+$/, high) : high);
  if (!from.ok || !to.ok || from.value.network.family !== to.value.network.family) return null;
  const { family, first } = from.value.network;
  const { last } = to.value.network;
  if (last < first) return 'The first address of the range is above the last: write the lower one first.';
  const networks = coverRange(family, first, last).map((network) => network.text);
  return networks.length === 1
    ? `Write \`${networks.join()}\`.`
    : `These networks are that range; list them in a RuleSet under \`destinations\`: ${joinSome(networks, mostListed)}.`;
}

const portSentences: Readonly<Record<Exclude<PortFault, 'bounds'>, Words>> = {
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

/** The problem of a text that is no address; its code is `address-` and the fault. */
export function describeAddressFault(fault: AddressFault, text: string): Unplaced {
  const sentence = explainText(fault, text.trim()) ?? addressSentences[fault];
  return { code: `address-${fault}`, severity: 'error', ...sentence };
}

/** What to know of a network whose text has bits set beyond its mask: it means the whole network. */
export function describeHostBits({ network, written }: ParsedNetwork): Unplaced {
  const summary = `${written} has bits set beyond its mask: it means the whole network ${network.text}.`;
  const hint = `Write ${network.text}, or the address without a mask if only that is meant.`;
  return makeWarning('host-bits', summary, hint);
}

/** The problem of a text that is no port range; its code is `port-` and the fault. */
export function describePortFault(fault: PortFault, bounds: PortRange): Unplaced {
  const hint = `Ports are ${bounds.low} to ${bounds.high} on this server.`;
  const sentence = fault === 'bounds' ? { summary: 'This port is out of bounds.', hint } : portSentences[fault];
  return { code: `port-${fault}`, severity: 'error', ...sentence };
}
