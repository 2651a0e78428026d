import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseNetwork } from '../../src/model/address.ts';
import type { Rule } from '../../src/model/rule.ts';
import { computeEffect } from '../../src/policy/effect.ts';
import { computeReach } from '../../src/policy/reach.ts';
import type { Traffic } from '../../src/policy/traffic.ts';
import { tellMatrix } from '../../src/report/reach.ts';
import { describeTraffic, formatTrafficLine, type TrafficLine } from '../../src/report/traffic/describe.ts';
import { formatPeople, type People } from '../../src/report/traffic/people.ts';
import { runs } from '../property/runs.ts';
import { ruleOf } from './support.ts';

const ids = ['a1520c4b', 'b2520c4b', 'c3520c4b', 'd4520c4b'].map((start) => `${start}-adc3-4574-932a-94461cf85c07`);
const [alice = '', bob = '', carol = '', dave = ''] = ids;
const names = new Map([
  [alice, 'alice'],
  [bob, 'bob'],
  [carol, 'carol'],
]);
const people: People = {
  names: new Map([...names, [dave, 'user d4520c4b']]),
  groups: new Map([['office', new Set([alice, bob])]]),
  withRules: new Set(ids),
  most: Number.POSITIVE_INFINITY,
};

const opened = (before: readonly string[], after: readonly string[]): readonly Traffic[] =>
  computeEffect(before.map(ruleOf), after.map(ruleOf)).opens;
const ownersOf = (rules: readonly Rule[]): ReadonlySet<string> => new Set(rules.flatMap(({ userId }) => userId ?? []));

describe('traffic in words', () => {
  it.each<[string, readonly string[], readonly string[], readonly string[]]>([
    [
      'a wider drop',
      ['drop 169.254.0.0/16'],
      ['drop 169.254.169.254'],
      ['169.254.0.0/16 but for 169.254.169.254, for everyone'],
    ],
    ['one person', [`drop 10.2.0.5 tcp 5432 for ${bob}`], [], ['10.2.0.5 tcp 5432 for bob']],
    ['a group', [`drop 10.2.0.5 for ${bob}`, `drop 10.2.0.5 for ${alice}`], [], ['10.2.0.5 for group office']],
    ['all but one person', ['drop 10.2.0.5'], [`drop 10.2.0.5 for ${alice}`], ['10.2.0.5 for everyone but alice']],
    [
      'ports but for some',
      ['drop 10.2.0.5 tcp 1-65534'],
      ['drop 10.2.0.5 tcp 80', 'drop 10.2.0.5 tcp 443'],
      ['10.2.0.5 tcp 1-79, 81-442, 444-65534 for everyone'],
    ],
    [
      'all but a service',
      ['drop 10.0.0.0/8'],
      ['drop 10.0.0.0/8 tcp 443'],
      ['10.0.0.0/8 everything but tcp 443 for everyone'],
    ],
    [
      'holes of other kinds',
      ['drop 10.0.0.0/8'],
      ['drop 10.1.0.0/16 tcp 443', 'drop 10.1.0.53 udp 53'],
      ['10.0.0.0/8 but for 10.1.0.0/16 tcp 443 and 10.1.0.53 udp 53, for everyone'],
    ],
    [
      'several networks',
      ['drop 10.1.0.0/16 tcp 443', 'drop 10.3.0.0/16 tcp 443'],
      [],
      ['10.1.0.0/16, 10.3.0.0/16 tcp 443 for everyone'],
    ],
    [
      'a person beside all',
      ['drop 10.0.0.0/8', `drop 10.2.0.5 tcp 5432 for ${bob}`],
      [`accept 10.2.0.5 tcp 5432 for ${bob}`],
      ['10.0.0.0/8 for everyone'],
    ],
  ])('%s', (_, before, after, lines) => {
    const withRules = ownersOf([...before, ...after].map(ruleOf));
    expect(describeTraffic(opened(before, after), { ...people, withRules }).map(formatTrafficLine)).toEqual(lines);
  });

  it('sources are compared only as far as the work of the whole report allows', () => {
    const ports = Array.from({ length: 1000 }, (_, n) => ({ low: 2 * n + 1, high: 2 * n + 1 }));
    const traffic = [null, alice, bob].map((user): Traffic => {
      return {
        user,
        destinations: user === bob ? ['10.1.0.0/16', '10.3.0.0/16'] : ['10.1.0.0/16'],
        protocol: 'tcp',
        ports,
      };
    });
    const budget = { looks: 5, networks: 100 };
    const linesOf = () =>
      describeTraffic(traffic, { ...people, withRules: new Set([alice, bob]), budget }).map(formatTrafficLine);
    const compared = linesOf();
    expect(compared.map((line) => line.slice(0, 20))).toEqual(['10.1.0.0/16 tcp 1, 3', '10.3.0.0/16 tcp 1, 3']);
    expect(compared[0]).toMatch(/for everyone$/);
    expect(linesOf()).toEqual([
      expect.stringMatching(/for everyone but bob$/),
      expect.stringMatching(/^10.1.*, 10.3.*for bob$/),
    ]);
  });

  it('sources are compared stretch by stretch as long as that is cheap, whatever the number of people', () => {
    const users = Array.from({ length: 40 }, (_, i) => `${(0x1000_0000 + i).toString(16)}-adc3-4574-932a-94461cf85c07`);
    const hosts = (some: readonly string[]): readonly string[] =>
      some.map((_, i) => `accept 10.0.0.${2 * i} tcp 1-65535 for ${some[i]}`);
    const linesOf = (before: readonly string[], after: readonly string[]) =>
      describeTraffic(
        computeEffect([...hosts(users), ...before].map(ruleOf), [...hosts(users), ...after].map(ruleOf)).closes,
        {
          ...people,
          withRules: new Set(users),
          budget: { looks: 10_000, networks: 10_000 },
        },
      ).length;
    expect(linesOf([], ['drop 10.0.0.0/8'])).toBe(41);
    const own = users.map((user, i) => `drop 10.0.0.0/8 tcp ${100 + i}-${200 + i} for ${user}`);
    expect(linesOf([], own)).toBe(40);
  });

  it('traffic that takes too long to read is said to be there', () => {
    const traffic = opened([`drop 10.2.0.5 for ${bob}`, `drop 10.2.0.6 for ${alice}`], []);
    const budget = { looks: 10_000, networks: 4 };
    expect(describeTraffic(traffic, { ...people, budget }).map(formatTrafficLine)).toEqual([
      '10.2.0.6 for alice',
      'more traffic than fits here for bob',
    ]);
  });

  it('of a list that is cut the widest networks are named, of IPv6 beside those of IPv4', () => {
    const small = Array.from({ length: 20 }, (_, n) => `drop 10.0.${2 * n}.0/24`);
    const traffic = opened([...small, 'drop 10.128.0.0/9', 'drop 2001:db8::/32'], []);
    const withRules = new Set<string>();
    expect(describeTraffic(traffic, { ...people, withRules }).map(formatTrafficLine)).toEqual([
      expect.stringMatching(
        /^2001:db8::\/32, 10\.128\.0\.0\/9, 10\.0\.0\.0\/24, .* and 14 more networks for everyone$/,
      ),
    ]);
  });

  it('nobody is hidden behind "and 1 more"', () => {
    const seven = Array.from({ length: 7 }, (_, i) => `e${i}520c4b-adc3-4574-932a-94461cf85c07`);
    const traffic = opened(
      seven.map((id) => `drop 10.2.0.5 for ${id}`),
      [],
    );
    const given: People = {
      names: new Map(seven.map((id, i) => [id, `p${i}`])),
      groups: new Map(),
      withRules: new Set(seven),
    };
    expect(describeTraffic(traffic, given).map(formatTrafficLine)).toEqual([
      '10.2.0.5 for p0, p1, p2, p3, p4, p5 and p6',
    ]);
  });
});

const many = Array.from({ length: 400 }, (_, i) => `${(0x1000_0000 + i).toString(16)}-adc3-4574-932a-94461cf85c07`);

it('everyone with rules of their own goes by the group that says it exactly', () => {
  const withRules = new Set(many);
  const given: People = { names: new Map(), groups: new Map([['all', withRules]]), withRules };
  const said = (users: readonly (string | null)[], groups = given.groups): string =>
    formatPeople(new Set(users), { ...given, groups });
  expect([said(many), said([null])]).toEqual(['group all', 'everyone but group all']);
  const none = new Map();
  expect(said(many, none)).toBe('everyone with rules of their own');
  expect(said([null], none)).toBe('everyone without rules of their own');
  expect(said([null, ...many], none)).toBe('everyone');
});

it('a table of many people looks at the traffic and at everybody a few times, not once for each of them', () => {
  let looks = 0;
  class Counted extends Set<string> {
    override [Symbol.iterator](): SetIterator<string> {
      looks += this.size;
      return super[Symbol.iterator]();
    }
  }
  const rules = ['drop 10.0.0.0/8', ...many.map((id) => `accept 10.1.0.0/16 for ${id}`)];
  const { accepted, dropped } = computeReach(rules.map(ruleOf));
  const counted = accepted.map((one) => {
    const get = (): string | null => {
      looks++;
      return one.user;
    };
    return Object.defineProperty({ ...one }, 'user', { get });
  });
  const withRules = new Counted(many);
  const networks = [{ name: 'office', networks: [{ value: ruleOf('drop 10.1.0.0/16').destination }] }];
  const given: People = { names: new Map(), groups: new Map([['all', withRules]]), withRules };
  const table = tellMatrix({ accepted: counted, dropped }, given, networks);
  expect(table.slice(0, 3)).toEqual([
    ['who', 'office'],
    ['everyone else', 'nothing'],
    [many[0], 'all'],
  ]);
  expect(looks).toBeLessThan(10 * (accepted.length + many.length));
});

/** A packet as the words know it: a source, an address, and `tcp 443`, `udp 53` or `other`. */
interface Sample {
  readonly user: string | null;
  readonly address: bigint;
  readonly family: 4 | 6;
  readonly protocol: 'tcp' | 'udp' | 'other';
  readonly port: number;
}

/** Whether the words of a list of networks and protocols hold the packet: an independent reading of what a person reads. */
function listHolds(text: string, { address, family, protocol, port }: Sample, otherwise: boolean): boolean {
  const everythingBut = / everything but /.test(text);
  const tokens = text.replace(' everything but ', ', ').split(', ').flatMap(expand);
  const networks = tokens.filter((token) => /^[0-9a-f]*[.:]/.test(token));
  const inNetwork = networks.some((token) => {
    const parsed = parseNetwork(token);
    if (!parsed.ok) throw new Error(`no network: ${token}`);
    const { network } = parsed.value;
    return network.family === family && network.first <= address && address <= network.last;
  });
  if (!inNetwork) return false;
  const words = tokens.filter((token) => !/^[0-9a-f]*[.:]/.test(token));
  if (words.length === 0) return otherwise;
  const holds = wordsHold(words, protocol, port);
  return everythingBut ? !holds : holds;
}

/** `10.0.0.0/8 tcp 443` → `10.0.0.0/8`, `tcp 443`. */
function expand(token: string): readonly string[] {
  const match = /^(\S*[.:]\S*) (.+)$/.exec(token);
  return match === null ? [token] : [match[1] ?? '', match[2] ?? ''];
}

function wordsHold(words: readonly string[], protocol: Sample['protocol'], port: number): boolean {
  let current = '';
  let inverse = false;
  let found = false;
  let cut = false;
  const close = (): void => {
    if (current === protocol && (inverse ? !cut : cut)) found = true;
  };
  for (const word of words) {
    if (word === 'other protocols') {
      close();
      current = '';
      if (protocol === 'other') found = true;
      continue;
    }
    const match = /^(?:(tcp|udp)( but for)? ?)?([0-9]+)?(?:-([0-9]+))?$/.exec(word);
    if (match === null) throw new Error(`not understood: ${word}`);
    if (match[1] !== undefined) {
      close();
      current = match[1];
      inverse = match[2] !== undefined;
      cut = match[3] === undefined;
    }
    const low = Number(match[3] ?? -1);
    if (low <= port && port <= Number(match[4] ?? low)) cut = true;
  }
  close();
  return found;
}

function lineHolds({ what, who }: TrafficLine, sample: Sample): boolean {
  if (!whoHolds(who, sample.user)) return false;
  // The first "but for" that a network follows begins the exceptions; others belong to ports.
  const at = what.search(/ but for [0-9a-f]*[.:]/);
  const main = at < 0 ? what : what.slice(0, at);
  if (!listHolds(main, sample, true)) return false;
  if (at < 0) return true;
  return !what
    .slice(at + ' but for '.length)
    .split(' and ')
    .some((text) => listHolds(text, sample, true));
}

function whoHolds(who: string, user: string | null): boolean {
  if (who === 'everyone') return true;
  const but = who.startsWith('everyone but ');
  const listed = (but ? who.slice('everyone but '.length) : who).split(/, | and /).flatMap((name) => {
    if (name === 'group office') return ['alice', 'bob'];
    return [name];
  });
  const name = user === null ? null : (people.names.get(user) ?? user);
  return but ? name === null || !listed.includes(name) : name !== null && listed.includes(name);
}

const anyRule: fc.Arbitrary<Rule> = fc
  .record({
    action: fc.constantFrom('accept', 'drop'),
    destination: fc.constantFrom(
      '10.0.0.0/8',
      '10.0.0.0/30',
      '10.0.0.1',
      '10.0.0.2/31',
      '10.128.0.0/9',
      '::/0',
      'fd00::/8',
      'fd00::1',
      '0.0.0.0/0',
    ),
    ports: fc.constantFrom('', ' tcp 443', ' tcp 1-65534', ' udp 53', ' tcp 80-8080'),
    user: fc.constantFrom('', ...ids.map((id) => ` for ${id}`)),
  })
  .map(({ action, destination, ports, user }) => ruleOf(`${action} ${destination}${ports}${user}`));
const addresses: readonly [4 | 6, string][] = [
  [4, '10.0.0.0'],
  [4, '10.0.0.1'],
  [4, '10.0.0.2'],
  [4, '10.0.0.3'],
  [4, '10.0.0.4'],
  [4, '10.128.0.0'],
  [4, '11.0.0.0'],
  [6, '::'],
  [6, 'fd00::'],
  [6, 'fd00::1'],
  [6, 'fd00::2'],
  [6, 'fe80::1'],
];
const samples: readonly Sample[] = addresses.flatMap(([family, text]) => {
  const parsed = parseNetwork(text);
  const address = parsed.ok ? parsed.value.network.first : 0n;
  return [null, ...ids].flatMap((user) => [
    ...[0, 1, 53, 79, 80, 443, 444, 8080, 8081, 65_534, 65_535].flatMap((port) => [
      { user, family, address, protocol: 'tcp' as const, port },
      { user, family, address, protocol: 'udp' as const, port },
    ]),
    { user, family, address, protocol: 'other' as const, port: 0 },
  ]);
});

function trafficHolds(traffic: readonly Traffic[], sample: Sample, own: ReadonlySet<string>): boolean {
  const user = sample.user !== null && own.has(sample.user) ? sample.user : null;
  return traffic.some(
    (one) =>
      one.user === user &&
      one.protocol === sample.protocol &&
      (one.ports === null || one.ports.some(({ low, high }) => low <= sample.port && sample.port <= high)) &&
      one.destinations.some((text) => {
        const parsed = parseNetwork(text);
        if (!parsed.ok) return false;
        const { family, first, last } = parsed.value.network;
        return family === sample.family && first <= sample.address && sample.address <= last;
      }),
  );
}

it('the words, read back, are the exact region', () => {
  fc.assert(
    fc.property(fc.array(anyRule, { maxLength: 6 }), fc.array(anyRule, { maxLength: 6 }), (before, after) => {
      const { opens, closes } = computeEffect(before, after);
      const own = ownersOf([...before, ...after]);
      for (const traffic of [opens, closes]) {
        const lines = describeTraffic(traffic, { ...people, withRules: own }, true);
        for (const sample of samples) {
          const holds = lines.some((line) => lineHolds(line, sample));
          if (holds !== trafficHolds(traffic, sample, own)) {
            throw new Error(
              `${JSON.stringify(sample, (_, v) => (typeof v === 'bigint' ? String(v) : v))} in ${lines.map(formatTrafficLine).join(' | ')}`,
            );
          }
        }
      }
    }),
    { numRuns: runs(1000) },
  );
});
