import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TopTwo } from '../../src/policy/lint/top-two-by-port.ts';
import { type Layer, lowerProfile, makeFlatProfile, zipProfiles } from '../../src/policy/port-profile.ts';
import { holdsPorts, toPortSet, touchesPorts } from '../../src/policy/port-set.ts';
import { runs } from '../property/runs.ts';

const highest = 12;
const everyPort = [...Array.from({ length: highest + 2 }, (_, port) => port), 65_535];
const range = fc
  .tuple(fc.integer({ min: 0, max: highest }), fc.integer({ min: 0, max: highest }))
  .map(([a, b]) => ({ low: Math.min(a, b), high: a === b && a === highest ? 65_535 : Math.max(a, b) }));
const layer = fc.record({ ports: fc.option(range, { freq: 6 }), key: fc.integer({ min: 0, max: 8 }) });
const layers = fc.array(layer, { maxLength: 12 });

function covers({ ports }: Layer, port: number): boolean {
  return ports === null || (ports.low <= port && port <= ports.high);
}

describe('rules laid on ports', () => {
  it('leave the lowest key at every port, in maximal ranges, laid on at once or in two rounds', () => {
    fc.assert(
      fc.property(layers, layers, (first, second) => {
        const profile = lowerProfile(lowerProfile(makeFlatProfile(9), first, 'tcp'), second, 'tcp');
        const found = new Map<number, number>();
        let before = -1;
        zipProfiles([profile], 'tcp', (low, high, [key = -1]) => {
          expect(key).not.toBe(before);
          before = key;
          for (const port of everyPort) if (low <= port && port <= high) found.set(port, key);
        });
        const lowest = (port: number): number =>
          Math.min(9, ...[...first, ...second].filter((one) => covers(one, port)).map(({ key }) => key));
        expect([...found]).toEqual(everyPort.map((port) => [port, lowest(port)]));
        expect(lowerProfile(makeFlatProfile(9), [...first, ...second], 'tcp')).toEqual(profile);
      }),
      { numRuns: runs(2_000) },
    );
  });

  it('leave the two lowest keys at every port', () => {
    fc.assert(
      fc.property(
        fc.array(range, { maxLength: 12 }),
        fc.integer({ min: 0, max: 12 }),
        fc.infiniteStream(fc.nat()),
        (ranges, cut, chance) => {
          const keyed = ranges
            .map((ports) => ({ ports, by: chance.next().value as number }))
            .map((one, n, all) => ({
              ports: one.ports,
              key: all.filter((other, m) => other.by < one.by || (other.by === one.by && m < n)).length,
            }));
          const two = new TopTwo(99).with(keyed.slice(0, cut)).with(keyed.slice(cut));
          const visited = new Map<number, readonly number[]>();
          two.each(({ low, high, best, second }) => {
            for (const port of everyPort) if (low <= port && port <= high) visited.set(port, [best, second]);
          });
          expect(two.openPorts === 0).toBe(everyPort.every((port) => keyed.some((one) => covers(one, port))));
          for (const port of everyPort) {
            const keys = keyed.filter((one) => covers(one, port)).map(({ key }) => key);
            const lowest = [...keys.sort((a, b) => a - b), 99, 99].slice(0, 2);
            expect(two.at(port)).toEqual(lowest);
            expect(visited.get(port)).toEqual(lowest);
          }
        },
      ),
      { numRuns: runs(2_000) },
    );
  });

  it('are looked at once, however many networks further in see them, and only where they are seen', () => {
    const many = 500;
    const wide = Array.from({ length: many }, (_, n) => ({ ports: { low: 10 * n, high: 10 * n + 4 }, key: many + n }));
    const outer = new TopTwo(9_999).with(wide);
    const seen: number[] = [];
    for (let n = 0; n < many; n++) {
      const inner = outer.with([{ ports: { low: 10 * n, high: 10 * n + 4 }, key: n }]);
      inner.eachFresh('accept', ({ best }) => seen.push(best));
    }
    expect(seen.toSorted((a, b) => a - b)).toEqual([...Array(2 * many).keys()]);
    const hidden: number[] = [];
    outer.with([{ ports: { low: 0, high: 4 }, key: 0 }]).eachFresh('drop', ({ best }) => hidden.push(best));
    expect(hidden).not.toContain(many);
  });

  it('are one set of ports, which tells what it touches and what it holds', () => {
    fc.assert(
      fc.property(fc.array(range, { maxLength: 8 }), range, (ranges, asked) => {
        const inAny = (port: number): boolean => ranges.some((ports) => covers({ ports, key: 0 }, port));
        const wanted = everyPort.filter((port) => asked.low <= port && port <= asked.high);
        const set = toPortSet(ranges);
        expect(touchesPorts(set, asked)).toBe(wanted.some(inAny));
        expect(holdsPorts(set, asked)).toBe(wanted.every(inAny));
        expect(set.every(({ low }, n) => n === 0 || low > (set[n - 1]?.high ?? 0) + 1)).toBe(true);
      }),
      { numRuns: runs(2_000) },
    );
  });
});
