import { groupBy } from '../../model/group-by.ts';
import { formatPortsKey, isSamePorts } from '../../policy/port-set.ts';
import type { Traffic } from '../../policy/traffic.ts';
import { describeNetworks, type Term } from './networks.ts';
import { formatPeople, type People } from './people.ts';
import { formatProtocols, noProtocols, type Protocols } from './protocols.ts';
import { groupBySources } from './sources.ts';

/** One line of traffic for people: `169.254.0.0/16 but for 169.254.169.254`, `everyone`. */
export interface TrafficLine {
  readonly what: string;
  readonly who: string;
  /** Its networks and the words for their traffic; none where exceptions make it more than a list. */
  readonly networks: readonly string[];
  readonly words: string;
}

/** Networks and exceptions that a line which is read in passing names before it counts the rest. */
const brief = 8;

/** The traffic in lines, those for most people first; with `isFull` the words, read back, are exactly the traffic. */
export function describeTraffic(traffic: readonly Traffic[], people: People, isFull = false): readonly TrafficLine[] {
  const most = isFull ? Number.POSITIVE_INFINITY : brief;
  return groupBySources(traffic)
    .toSorted((a, b) => Number(b.users.has(null)) - Number(a.users.has(null)) || b.users.size - a.users.size)
    .flatMap(({ users, pieces }) => {
      const who = formatPeople(users, people);
      return joinAlike(describeNetworks(pieces)).map((terms) => ({ who, ...describeTerms(terms, most) }));
    });
}

/** `10.2.0.5 tcp 5432 for bob`: one line as a sentence's end. */
export function formatTrafficLine({ what, who }: Pick<TrafficLine, 'what' | 'who'>): string {
  return what.includes(' but for ') ? `${what}, for ${who}` : `${what} for ${who}`;
}

/** Networks with the same traffic and no exceptions are one line; each with exceptions is its own. */
function joinAlike(terms: readonly Term[]): readonly (readonly Term[])[] {
  const keyOf = (term: Term) => (term.exceptions.length === 0 ? formatPortsKey(term.protocols) : term);
  return [...groupBy(terms, keyOf).values()];
}

function describeTerms(terms: readonly Term[], most: number): Omit<TrafficLine, 'who'> {
  const { protocols = noProtocols, exceptions = [] } = terms[0] ?? {};
  const networks = terms.map(({ network }) => network);
  const words = formatProtocols(protocols);
  const what = listText(networks, words, most);
  if (exceptions.length === 0) return { what, networks, words };
  const wordsOf = (own: Protocols): string => (isSamePorts(own, protocols) ? '' : formatProtocols(own));
  const parts = [...groupBy(exceptions, (exception) => wordsOf(exception.protocols))].map(([own, alike]) => {
    const inside = alike.map(({ network }) => network);
    return listText(inside, own, most);
  });
  return { what: `${what} but for ${parts.join(' and ')}`, networks: [], words };
}

/** The first networks and how many are left out, with words for their traffic; one more than allowed is not worth leaving out. */
function listText(networks: readonly string[], words: string, most: number): string {
  const left = networks.length - most;
  const list = left <= 1 ? networks.join(', ') : `${networks.slice(0, most).join(', ')} and ${left} more networks`;
  return words === '' ? list : `${list} ${words}`;
}
