import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { PortRange } from '../../src/model/port-range.ts';
import {
  eachPortRange,
  extendProfile,
  type Fold,
  getValueAt,
  makeFlatProfile,
  type PortProfile,
} from '../../src/policy/port-profile.ts';
import { toPortSet, touchesPorts } from '../../src/policy/port-set.ts';
import type { Ruled } from '../../src/policy/rule-index.ts';
import { rule } from '../plan/support.ts';
import { runs } from '../property/runs.ts';

const highest = 12;
const everyPort = [...Array.from({ length: highest + 2 }, (_, port) => port), 65_535];
const range = fc
  .tuple(fc.integer({ min: 0, max: highest }), fc.integer({ min: 0, max: highest }))
  .map(([a, b]) => ({ low: Math.min(a, b), high: a === b && a === highest ? 65_535 : Math.max(a, b) }));
const keyed = fc.record({ ports: fc.option(range, { freq: 6 }), key: fc.integer({ min: 0, max: 8 }) });
const layers = fc.array(keyed, { maxLength: 12 });
type Layer = { readonly ports: PortRange | null; readonly key: number };

function covers({ ports }: Layer, port: number): boolean {
  return ports === null || (ports.low <= port && port <= ports.high);
}

function itemOf({ ports, key }: Layer): Ruled & { readonly key: number } {
  return { key, rule: { ...rule('accept 10.0.0.0/8'), ports: ports === null ? null : { type: 'tcp', ...ports } } };
}

const lowestKey: Fold<ReturnType<typeof itemOf>, number> = {
  nothing: 9,
  keyOf: ({ key }) => key,
  add: (outer, [first]) => Math.min(outer, first?.key ?? outer),
};

const everyKey: Fold<ReturnType<typeof itemOf>, string> = {
  nothing: '',
  keyOf: ({ key }) => key,
  add: (outer, items) => outer + items.map(({ key }) => key).join(''),
};

describe('rules laid on ports', () => {
  it('are laid on at once for each port a rule of its own', () => {
    const one = (port: number): Layer => ({ ports: { low: port, high: port }, key: port % 2 });
    const all = Array.from({ length: 65_536 }, (_, port) => itemOf(one(port)));
    const { starts, values } = extendProfile(makeFlatProfile(9), all, lowestKey, 'tcp');
    expect([starts.length, starts.at(-1), values.at(-1)]).toEqual([65_536, 65_535, 1]);
  });

  it('leave the lowest key at every port, in maximal ranges, laid on at once or in two rounds', () => {
    fc.assert(
      fc.property(layers, layers, (first, second) => {
        const laid = (profile: PortProfile<number>, some: readonly Layer[]) =>
          extendProfile(profile, some.map(itemOf), lowestKey, 'tcp');
        const profile = laid(laid(makeFlatProfile(9), first), second);
        const found = new Map<number, number>();
        let before = -1;
        eachPortRange(profile, 'tcp', (low, high, key) => {
          expect(key).not.toBe(before);
          before = key;
          for (const port of everyPort) if (low <= port && port <= high) found.set(port, key);
        });
        const lowest = (port: number): number =>
          Math.min(9, ...[...first, ...second].filter((one) => covers(one, port)).map(({ key }) => key));
        expect([...found]).toEqual(everyPort.map((port) => [port, lowest(port)]));
        expect(laid(makeFlatProfile(9), [...first, ...second])).toEqual(profile);
        expect(everyPort.map((port) => getValueAt(profile, port))).toEqual(everyPort.map(lowest));
      }),
      { numRuns: runs(2_000) },
    );
  });

  it('are all told of, the lowest key first', () => {
    fc.assert(
      fc.property(layers, (all) => {
        const profile = extendProfile(makeFlatProfile(''), all.map(itemOf), everyKey, 'tcp');
        for (const port of everyPort) {
          const keys = all.filter((one) => covers(one, port)).map(({ key }) => key);
          expect(getValueAt(profile, port)).toBe(keys.sort((a, b) => a - b).join(''));
        }
      }),
      { numRuns: runs(2_000) },
    );
  });

  it('are one set of ports, which tells what it touches', () => {
    fc.assert(
      fc.property(fc.array(range, { maxLength: 8 }), range, (ranges, asked) => {
        const inAny = (port: number): boolean => ranges.some((ports) => covers({ ports, key: 0 }, port));
        const wanted = everyPort.filter((port) => asked.low <= port && port <= asked.high);
        const set = toPortSet(ranges);
        expect(touchesPorts(set, asked)).toBe(wanted.some(inAny));
        expect(set.every(({ low }, n) => n === 0 || low > (set[n - 1]?.high ?? 0) + 1)).toBe(true);
      }),
      { numRuns: runs(2_000) },
    );
  });
});
