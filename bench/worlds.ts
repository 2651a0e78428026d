import { Network } from '../src/model/address.ts';
import type { Rule } from '../src/model/rule.ts';

/** The rules of a server, and those of a repository. */
export interface World {
  readonly before: readonly Rule[];
  readonly after: readonly Rule[];
}

/** Worlds that no ordinary repository looks like, in which some stage once took quadratic time. `n` scales them. */

function user(n: number): string {
  return `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;
}

function ports(low: number, high = low): Rule['ports'] {
  return { type: 'tcp', low, high };
}

const everything = new Network(4, 0n, 0);

/** `n` port rules on everything, and `n` networks, nested 20 deep, with a port rule each. */
export function portsOverNestedNetworks(n: number): readonly Rule[] {
  return Array.from({ length: n }, (_, i): Rule[] => [
    { action: i % 2 === 0 ? 'accept' : 'drop', destination: everything, ports: ports(1 + i * 3), userId: null },
    {
      action: i % 3 === 0 ? 'accept' : 'drop',
      destination: new Network(4, 0x0a000000n + BigInt(Math.floor(i / 20) << 12), 12 + (i % 20)),
      ports: ports(2 + i * 3),
      userId: null,
    },
  ]).flat();
}

/** `n` / 10 port rules on everything, and `n` hosts that one port of their own opens. */
export function portsOverHosts(n: number): readonly Rule[] {
  const wide = Array.from(
    { length: n / 10 },
    (_, i): Rule => ({
      action: i % 2 === 0 ? 'accept' : 'drop',
      destination: everything,
      ports: ports(1 + i * 3),
      userId: null,
    }),
  );
  const hosts = Array.from(
    { length: n },
    (_, i): Rule => ({
      action: 'accept',
      destination: new Network(4, 0x0a000000n + BigInt(i), 32),
      ports: ports(1 + (i % 7) * 3, 2 + (i % 7) * 3),
      userId: null,
    }),
  );
  return [...wide, ...hosts];
}

/** Each of `users` has `n` port rules on one network, all of them re-drawn: other ports, in another order. */
export function redrawnPorts(users: number, n: number): World {
  const rulesOf = (u: number, shift: number): readonly Rule[] =>
    Array.from({ length: n }, (_, i) => ({
      action: (i * 7 + shift) % 2 === 0 ? 'accept' : 'drop',
      destination: new Network(4, 0x0a000000n, 8),
      ports: ports(1 + i * 30 + shift, 10 + i * 30 + shift * 2),
      userId: user(u),
    }));
  const all = (shift: number): readonly Rule[] => Array.from({ length: users }, (_, u) => rulesOf(u, shift)).flat();
  return { before: all(0), after: all(5) };
}

/** Each of `users` has `n` ranges of the same networks, which all move by one: every create collides with two deletes. */
export function movedRanges(users: number, n: number): World {
  const all = (shift: number): readonly Rule[] =>
    Array.from({ length: users * n }, (_, i) => ({
      action: 'accept',
      destination: new Network(4, 0x0a000000n, 8),
      ports: ports(1000 + (i % n) * 10 + shift, 1009 + (i % n) * 10 + shift),
      userId: user(Math.floor(i / n)),
    }));
  return { before: all(0), after: all(1) };
}

/** `n` networks, eight inside one another, side by side, all of which change their action. */
export function nestedFlip(n: number): World {
  const all = (flip: number): readonly Rule[] =>
    Array.from({ length: n }, (_, i) => ({
      action: (i + flip) % 2 === 0 ? 'accept' : 'drop',
      destination: new Network(4, 0x0a000000n + BigInt(Math.floor(i / 8) * 65_536), 17 + (i % 8)),
      ports: null,
      userId: null,
    }));
  return { before: all(0), after: all(1) };
}

/** `users` with `own` rules each beside `global` ones, all of which change their action. */
export function flippedForUsers(users: number, own: number, global: number): World {
  const all = (flip: number): readonly Rule[] => {
    const rule = (i: number, userId: string | null): Rule => ({
      action: (i + flip) % 2 === 0 ? 'accept' : 'drop',
      destination: new Network(4, 0x0a000000n + BigInt(i << 8), 24),
      ports: null,
      userId,
    });
    const ofUsers = Array.from({ length: users * own }, (_, i) => rule(i % own, user(Math.floor(i / own))));
    return [...ofUsers, ...Array.from({ length: global }, (_, i) => rule(i, null))];
  };
  return { before: all(0), after: all(1) };
}

/** `gaps` port ranges on everything that move by one, while `users` each have a rule of their own. */
export function gapsForUsers(gaps: number, users: number): World {
  const all = (shift: number): readonly Rule[] => [
    ...Array.from(
      { length: gaps },
      (_, i): Rule => ({
        action: 'accept',
        destination: everything,
        ports: ports(1 + i * 20 + shift, 10 + i * 20 + shift),
        userId: null,
      }),
    ),
    { action: 'drop', destination: everything, ports: null, userId: null },
    ...Array.from(
      { length: users },
      (_, u): Rule => ({
        action: 'accept',
        destination: new Network(4, 0x0a000000n + BigInt(u), 32),
        ports: ports(22),
        userId: user(u),
      }),
    ),
  ];
  return { before: all(0), after: all(1) };
}

/** The worlds whose plans are measured, by what they are. */
export const worlds: Readonly<Record<string, (scale: number) => World>> = {
  '5 users with 1,990 re-drawn port rules each': (scale) => redrawnPorts(5 * scale, 1_990),
  '1,000 users with 7 moved ranges each': (scale) => movedRanges(1_000 * scale, 7),
  '8,000 nested networks, all flipped': (scale) => nestedFlip(8_000 * scale),
  '300 users with 100 rules each and 100 global ones, all flipped': (scale) => flippedForUsers(300 * scale, 100, 100),
  '1,000 gaps on everything beside 300 users': (scale) => gapsForUsers(1_000 * scale, 300 * scale),
};
