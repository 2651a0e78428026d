import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { coverRange } from '../../src/model/address.ts';
import { intersectIntervals, toIntervals, unionIntervals } from '../../src/model/intervals.ts';
import { toPortSet } from '../../src/policy/port-set.ts';
import { addSlab, cutRegion, joinRegions, type Region, type Slab } from '../../src/policy/region.ts';
import { runs } from '../property/runs.ts';

/** 12 addresses and 6 ports; a region is drawn as the cells it holds. */
const cell = fc.tuple(fc.nat({ max: 11 }), fc.nat({ max: 5 })).map(([address, port]) => address * 6 + port);
const cellSet = fc.array(cell, { maxLength: 40 }).map((cells) => new Set(cells));

function regionOfCells(cells: ReadonlySet<number>): Region {
  const slabs: Slab[] = [];
  for (let address = 0; address < 12; address++) {
    const ports = [0, 1, 2, 3, 4, 5].filter((port) => cells.has(address * 6 + port));
    addSlab(slabs, {
      first: BigInt(address),
      last: BigInt(address),
      ports: toPortSet(ports.map((port) => ({ low: port, high: port }))),
    });
  }
  return slabs;
}

function cellsOfRegion(region: Region): number[] {
  const cells: number[] = [];
  for (const { first, last, ports } of region) {
    for (let address = first; address <= last; address++) {
      for (const { low, high } of ports) for (let p = low; p <= high; p++) cells.push(Number(address) * 6 + p);
    }
  }
  return cells.sort((a, b) => a - b);
}

function sorted(cells: Iterable<number>): number[] {
  return [...cells].sort((a, b) => a - b);
}

describe('Region', () => {
  it('joins regions that share no address as sets do', () => {
    fc.assert(
      fc.property(cellSet, cellSet, (a, b) => {
        const others = new Set(
          [...b].filter((one) => ![...a].some((mine) => Math.floor(mine / 6) === Math.floor(one / 6))),
        );
        const joined = joinRegions(regionOfCells(a), regionOfCells(others));
        expect(cellsOfRegion(joined)).toEqual(sorted(new Set([...a, ...others])));
        expect(joined).toEqual(regionOfCells(new Set([...a, ...others])));
      }),
      { numRuns: runs(5000) },
    );
  });

  it('is canonical: equal sets are equal lists', () => {
    fc.assert(
      fc.property(cellSet, cellSet, (a, b) => {
        expect(regionOfCells(a)).toEqual(regionOfCells(new Set([...a].reverse())));
        const areEqual = isDeepStrictEqual(regionOfCells(a), regionOfCells(b));
        expect(areEqual).toBe(sorted(a).join() === sorted(b).join());
      }),
      { numRuns: runs(5000) },
    );
  });

  it('leaves out addresses', () => {
    const addresses = fc.array(fc.nat({ max: 11 }));
    fc.assert(
      fc.property(cellSet, addresses, (cells, out) => {
        const intervals = toIntervals(out.map(hostInterval));
        const kept = [...cells].filter((one) => !out.includes(Math.floor(one / 6)));
        expect(cellsOfRegion(cutRegion(regionOfCells(cells), intervals))).toEqual(sorted(kept));
      }),
      { numRuns: runs(5000) },
    );
  });
});

describe('Intervals', () => {
  it('unite and intersect as sets do, and stay maximal', () => {
    const addresses = fc.array(fc.nat({ max: 20 }));
    fc.assert(
      fc.property(addresses, addresses, (a, b) => {
        const [x, y] = [toIntervals(a.map(hostInterval)), toIntervals(b.map(hostInterval))];
        const expand = (list: typeof x): number[] =>
          list.flatMap(({ first, last }) =>
            Array.from({ length: Number(last - first) + 1 }, (_, i) => Number(first) + i),
          );
        expect(expand(unionIntervals(x, y))).toEqual(sorted(new Set([...a, ...b])));
        expect(expand(intersectIntervals(x, y))).toEqual(sorted(new Set(a.filter((one) => b.includes(one)))));
        for (const list of [unionIntervals(x, y), intersectIntervals(x, y)]) {
          for (const [i, { first }] of list.entries()) {
            const previous = list[i - 1];
            if (previous !== undefined) expect(first > previous.last + 1n).toBe(true);
          }
        }
      }),
      { numRuns: runs(5000) },
    );
  });

  it('are covered by the fewest networks, which number is that of an exhaustive search', () => {
    const addresses = fc.array(fc.nat({ max: 15 }), { minLength: 1 });
    fc.assert(
      fc.property(addresses, (list) => {
        const set = new Set(list);
        const intervals = toIntervals(list.map(hostInterval));
        const networks = intervals.flatMap(({ first, last }) => coverRange(4, first, last));
        const covered = networks.flatMap(({ first, last }) =>
          Array.from({ length: Number(last - first) + 1 }, (_, i) => Number(first) + i),
        );
        expect(covered).toEqual(sorted(set));
        expect(networks.length).toBe(fewest(set, 0, 16));
      }),
      { numRuns: runs(2000) },
    );
  });
});

/** The fewest blocks: one when the block is full, else those of its halves. */
function fewest(set: ReadonlySet<number>, from: number, size: number): number {
  const members = [...set].filter((one) => one >= from && one < from + size).length;
  if (members === 0 || members === size) return members === 0 ? 0 : 1;
  return fewest(set, from, size / 2) + fewest(set, from + size / 2, size / 2);
}

function hostInterval(address: number) {
  const number = BigInt(address);
  return { family: 4 as const, prefix: 32, first: number, last: number, text: `0.0.0.${address}` };
}
