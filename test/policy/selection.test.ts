import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Protocol } from '../../src/model/state.ts';
import { computeEffect } from '../../src/policy/effect.ts';
import { findPacketInBoth } from '../../src/policy/selection.ts';
import type { Packet } from '../../src/policy/verdict.ts';
import { runs } from '../property/runs.ts';
import { expandTraffic, packetKey, packets, ruleArbitrary, rulesArbitrary, users } from './universe.ts';

const selection = fc
  .record({
    like: ruleArbitrary,
    user: fc.constantFrom(null, 'any', ...users),
    protocols: fc.constantFrom<readonly Protocol[]>(['tcp', 'udp', 'other'], ['tcp'], ['udp'], ['other']),
  })
  .map(({ like, ...fields }) => ({
    ...fields,
    destination: like.destination,
    ports: like.ports ?? { low: 0, high: 65_535 },
  }));

describe('findPacketInBoth', () => {
  it('gives a packet of the traffic and the selection exactly when they share one', () => {
    fc.assert(
      fc.property(rulesArbitrary, rulesArbitrary, selection, (before, after, selected) => {
        const { opens } = computeEffect(before, after);
        const named = new Set([...before, ...after].flatMap(({ userId }) => userId ?? []));
        const told = new Set(expandTraffic(opens));
        const opened = {
          has: (packet: Packet) =>
            told.has(packetKey(packet.user !== null && !named.has(packet.user) ? { ...packet, user: null } : packet)),
        };
        const shared = [...packets([null, ...users])].filter(
          ({ user, address, protocol, port }) =>
            opened.has({ user, address, protocol, port }) &&
            (selected.user === 'any' || selected.user === user) &&
            selected.protocols.includes(protocol) &&
            selected.destination.family === address.family &&
            selected.destination.first <= address.first &&
            address.first <= selected.destination.last &&
            (protocol === 'other' || (selected.ports.low <= port && port <= selected.ports.high)),
        );
        const packet = findPacketInBoth({ traffic: opens, users: named }, selected);
        if (packet === null) expect(shared.map(packetKey)).toEqual([]);
        else expect(shared.map(packetKey)).toContain(packetKey(packet));
      }),
      { numRuns: runs(2000) },
    );
  });
});
