import { getWidth, type Network, parseNetwork } from '../model/address.ts';
import type { Protocol } from '../model/state.ts';
import { makeFailure } from './failure.ts';
import type { Settings } from './settings.ts';

/** What `reconcile explain` is asked: about one packet, or about one rule. */
export type Question = PacketQuestion | { readonly kind: 'rule'; readonly name: string };

export interface PacketQuestion {
  readonly kind: 'packet';
  readonly destination: string;
  readonly protocol: Protocol;
  /** null: none was named. */
  readonly port: number | null;
  readonly user: string | null;
}

/** A question as it is written. */
export type AskedQuestion = Pick<Settings, 'destination' | 'protocol' | 'port' | 'rule' | 'user'>;

/** The question on the command line; throws a `Failure` for none, or for more than one. */
export function readQuestion({ destination, protocol, port, rule, user }: AskedQuestion): Question {
  if (rule !== null) {
    if (destination !== null)
      throw makeFailure('usage', '--rule and --destination are two questions', 'ask one of them');
    return { kind: 'rule', name: rule };
  }
  if (destination === null) {
    throw makeFailure(
      'usage',
      'nothing is asked',
      'name a packet (--destination 10.1.2.3 --protocol tcp --port 443) or a rule (--rule NAME)',
    );
  }
  if (protocol === null) throw makeFailure('usage', '--protocol is missing', 'tcp, udp, or another such as icmp');
  const kind = parseProtocol(protocol);
  if (port !== null && kind === 'other')
    throw makeFailure('usage', '--port goes with tcp and udp only', 'other protocols know no ports');
  if (user.length > 1) throw makeFailure('usage', '--user is given more than once', 'a packet comes from one device');
  return {
    kind: 'packet',
    destination,
    protocol: kind,
    port,
    user: user[0] ?? null,
  };
}

/** The address of the packet; throws a `Failure` for a network, or for what is neither. */
export function readAddress({ destination }: PacketQuestion): Network {
  const parsed = parseNetwork(destination);
  if (parsed.ok && parsed.value.network.prefix === getWidth(parsed.value.network.family)) return parsed.value.network;
  const hint = parsed.ok
    ? 'a packet goes to one address; a PolicyTest checks a whole network'
    : 'such as 10.1.2.3 or 2001:db8::1';
  throw makeFailure('usage', `--destination ${destination} is not an IP address`, hint);
}

/** Rules know tcp, udp, and all the rest; a protocol goes by its name or its number. */
export function parseProtocol(text: string): Protocol {
  const name = text.trim().toLowerCase();
  if (name === 'tcp' || name === '6') return 'tcp';
  if (name === 'udp' || name === '17') return 'udp';
  if (/^[a-z][a-z0-9-]*$/.test(name) || (/^[0-9]{1,3}$/.test(name) && Number(name) <= 255)) return 'other';
  throw makeFailure(
    'usage',
    `--protocol ${text} is no protocol`,
    'tcp, udp, or another such as icmp, by name or number',
  );
}
