import { formatAddress, type Network, parseNetwork } from '../model/address.ts';
import { formatPortRange, type PortRange } from '../model/port-range.ts';
import { printable } from '../model/printable.ts';
import type { Rule } from '../model/rule.ts';
import type { JoinedTraffic } from '../policy/render-traffic.ts';

/** Names of users by UUID. */
export type UserNames = ReadonlyMap<string, string>;

/** A user for people: the name the manifests give, else the UUID. */
export function userText(id: string, names: UserNames): string {
  return printable(names.get(id) ?? id);
}

/** `accept 10.0.0.0/8 tcp 443 for alice`. */
export function ruleText(rule: Rule, names: UserNames): string {
  const ports = rule.ports === null ? '' : ` ${rule.ports.type} ${portText(rule.ports)}`;
  const user = rule.userId === null ? '' : ` for ${userText(rule.userId, names)}`;
  return `${rule.action} ${rule.destination.text}${ports}${user}`;
}

/** `443` or `8000-8010`: how people and the JSON output write ports. */
export function portText(range: PortRange): string {
  return formatPortRange(range).replaceAll(' ', '');
}

/** Destinations, ports and users shown of one group; what is left out is counted. */
const shown = { destinations: 6, ports: 12, users: 6 };

/** What words for traffic depend on: names, and whether any rule is for one user alone. */
export interface TrafficWords {
  readonly names: UserNames;
  readonly hasUserRules: boolean;
}

/** Traffic of one set of destinations and users, which is one line for people. */
interface TrafficLine {
  readonly group: JoinedTraffic;
  /** With their ports: `tcp 443,8000-8010`. */
  readonly protocols: readonly string[];
}

/** Traffic for people: `10.1.0.0/16 tcp 443,8000-8010 for alice`, one text for each set of destinations and users. */
export function trafficTexts(groups: readonly JoinedTraffic[], words: TrafficWords): readonly string[] {
  return trafficGroups(groups).map((line) => trafficText(line, words));
}

/** The lines to come, in order; a text is made only of those that are shown. */
export function trafficGroups(groups: readonly JoinedTraffic[]): readonly TrafficLine[] {
  const joined = new Map<string, { readonly group: JoinedTraffic; readonly protocols: string[] }>();
  for (const group of groups) {
    const key = `${group.destinations.join(' ')} ${group.users.join(' ')}`;
    const same = joined.get(key);
    if (same === undefined) joined.set(key, { group, protocols: [portsText(group)] });
    else same.protocols.push(portsText(group));
  }
  return [...joined.values()];
}

/** One line of traffic. */
export function trafficText({ group, protocols }: TrafficLine, words: TrafficWords): string {
  const all = ['tcp', 'udp', 'other protocols'].every((protocol) => protocols.includes(protocol));
  const what = all ? 'all traffic' : protocols.join(', ');
  return `${some(addressTexts(group.destinations), shown.destinations, ', ')}  ${what} for ${usersText(group.users, words)}`;
}

/** Networks for people: neighbours that form no one network become a range, `10.0.0.0-10.1.0.52`. */
function addressTexts(destinations: readonly string[]): readonly string[] {
  const texts: string[] = [];
  let run: Network[] = [];
  const flush = (): void => {
    const [first, last] = [run[0], run.at(-1)];
    if (first === undefined || last === undefined) return;
    texts.push(
      run.length === 1
        ? first.text
        : `${formatAddress(first.family, first.first)}-${formatAddress(last.family, last.last)}`,
    );
    run = [];
  };
  for (const text of destinations) {
    const parsed = parseNetwork(text);
    if (!parsed.ok) continue;
    const { network } = parsed.value;
    const before = run.at(-1);
    if (before !== undefined && (before.family !== network.family || before.last + 1n !== network.first)) flush();
    run.push(network);
  }
  flush();
  return texts;
}

function portsText({ protocol, ports }: JoinedTraffic): string {
  if (ports === null) return 'other protocols';
  const [first] = ports;
  const every = ports.length === 1 && first?.low === 0 && first.high === 65535;
  return every ? protocol : `${protocol} ${some(ports.map(portText), shown.ports, ',')}`;
}

function usersText(users: readonly (string | null)[], { names, hasUserRules }: TrafficWords): string {
  const named = users.flatMap((user) => (user === null ? [] : [userText(user, names)]));
  if (!users.includes(null)) return some(named, shown.users, ', ');
  if (!hasUserRules) return 'everyone';
  return named.length === 0 ? 'users without rules of their own' : `${some(named, shown.users, ', ')} and all others`;
}

/** The first `limit` texts joined, and how many are left out. */
export function some(texts: readonly string[], limit: number, separator: string): string {
  const left = texts.length - limit;
  return left <= 0 ? texts.join(separator) : `${texts.slice(0, limit).join(separator)} and ${left} more`;
}
