import type { Traffic } from '../../policy/traffic.ts';
import { describeNetworks, type Term } from './networks.ts';
import { formatPeople, type People } from './people.ts';
import { formatProtocols, formatProtocolsKey, isSameProtocols } from './protocols.ts';
import { groupBySources } from './sources.ts';

/** One line of traffic for people: `169.254.0.0/16 but for 169.254.169.254`, `everyone`. */
export interface TrafficLine {
  readonly what: string;
  readonly who: string;
  /** Its networks and the words for their traffic; none where exceptions make it more than a list. */
  readonly networks: readonly string[];
  readonly words: string;
}

/** Networks and exceptions that a line names before it counts the rest; `Infinity`: all, so that the words are exact. */
export interface Brevity {
  readonly networks: number;
}

/** For a line that is read in passing. */
export const brief: Brevity = { networks: 8 };
/** Nothing left out. */
export const full: Brevity = { networks: Number.POSITIVE_INFINITY };

/** The traffic in lines, those for most people first; with `full` the words, read back, are exactly the traffic. */
export function describeTraffic(
  traffic: readonly Traffic[],
  people: People,
  { networks }: Brevity = brief,
): readonly TrafficLine[] {
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
        what: termsText(terms, networks),
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
  const lines: Term[][] = [];
  const byTraffic = new Map<string, Term[]>();
  for (const term of terms) {
    const key = formatProtocolsKey(term.protocols);
    const alike = term.exceptions.length === 0 ? byTraffic.get(key) : undefined;
    if (alike !== undefined) {
      alike.push(term);
      continue;
    }
    const line = [term];
    lines.push(line);
    if (term.exceptions.length === 0) byTraffic.set(key, line);
  }
  return lines;
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
  const byWords = new Map<string, string[]>();
  for (const exception of exceptions) {
    const words = isSameProtocols(exception.protocols, protocols) ? '' : formatProtocols(exception.protocols);
    const networks = byWords.get(words);
    if (networks === undefined) byWords.set(words, [exception.network]);
    else networks.push(exception.network);
  }
  return [...byWords]
    .map(([words, networks]) => (words === '' ? listText(networks, most) : `${listText(networks, most)} ${words}`))
    .join(' and ');
}

/** The first texts, and how many networks are left out; one more than allowed is not worth leaving out. */
function listText(texts: readonly string[], most: number): string {
  const left = texts.length - most;
  return left <= 1 ? texts.join(', ') : `${texts.slice(0, most).join(', ')} and ${left} more networks`;
}
