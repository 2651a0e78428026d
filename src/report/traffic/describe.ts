import { groupBy } from '../../model/group-by.ts';
import { formatPortsKey, isSamePorts } from '../../policy/port-set.ts';
import type { Traffic } from '../../policy/traffic.ts';
import { describeNetworks, type Term } from './networks.ts';
import { formatPeople, type People } from './people.ts';
import { formatProtocols } from './protocols.ts';
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
  const groups = groupBySources(traffic).map(({ users, pieces }) => ({
    users,
    pieces,
    who: formatPeople(users, people),
  }));
  return groups
    .sort((a, b) => Number(b.users.has(null)) - Number(a.users.has(null)) || b.users.size - a.users.size)
    .flatMap(({ pieces, who }) =>
      joinAlike(describeNetworks(pieces)).map((terms) => ({
        who,
        what: termsText(terms, most),
        networks: terms[0]?.exceptions.length === 0 ? terms.map(({ network }) => network) : [],
        words: terms[0] === undefined ? '' : formatProtocols(terms[0].protocols),
      })),
    );
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

function termsText(terms: readonly Term[], most: number): string {
  const [first] = terms;
  if (first === undefined) return '';
  const words = formatProtocols(first.protocols);
  const networks = listText(
    terms.map(({ network }) => network),
    most,
  );
  const what = words === '' ? networks : `${networks} ${words}`;
  return first.exceptions.length === 0 ? what : `${what} but for ${exceptionsText(first, most)}`;
}

function exceptionsText({ protocols, exceptions }: Term, most: number): string {
  const wordsOf = (own: Term['protocols']): string => (isSamePorts(own, protocols) ? '' : formatProtocols(own));
  const parts = [...groupBy(exceptions, (exception) => wordsOf(exception.protocols))].map(([words, alike]) => {
    const networks = alike.map(({ network }) => network);
    return words === '' ? listText(networks, most) : `${listText(networks, most)} ${words}`;
  });
  return parts.join(' and ');
}

/** The first texts, and how many networks are left out; one more than allowed is not worth leaving out. */
function listText(texts: readonly string[], most: number): string {
  const left = texts.length - most;
  return left <= 1 ? texts.join(', ') : `${texts.slice(0, most).join(', ')} and ${left} more networks`;
}
