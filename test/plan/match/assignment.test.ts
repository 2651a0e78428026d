import fc from 'fast-check';
import { linearSumAssignment } from 'linear-sum-assignment';
import { describe, expect, it } from 'vitest';
import { assign, type CostMatrix } from '../../../src/plan/match/assignment.ts';
import { runs } from '../../property/runs.ts';

function matrixArbitrary(size: number, forbidden: boolean): fc.Arbitrary<CostMatrix> {
  const cost = fc.integer({ min: 0, max: 20 });
  const cell = forbidden
    ? fc.oneof({ weight: 2, arbitrary: cost }, { weight: 1, arbitrary: fc.constant(Infinity) })
    : cost;
  return fc
    .tuple(fc.integer({ min: 1, max: size }), fc.integer({ min: 1, max: size }))
    .chain(([rows, columns]) =>
      fc
        .array(cell, { minLength: rows * columns, maxLength: rows * columns })
        .map((costs) => ({ rows, columns, costs: Float64Array.from(costs) })),
    );
}

/** How many rows are paired, and at what cost. Throws when two share a column or a pair is forbidden. */
function outcome({ columns, costs }: CostMatrix, assigned: Iterable<number>): readonly [number, number] {
  const used = new Set<number>();
  let cost = 0;
  for (const [row, column] of [...assigned].entries()) {
    if (column < 0) continue;
    if (used.has(column)) throw new Error(`column ${column} is used twice`);
    used.add(column);
    cost += costs[row * columns + column] as number;
  }
  if (cost === Infinity) throw new Error('a forbidden pair');
  return [used.size, cost];
}

/** The most pairs, and the least cost with so many, by trying everything. */
function byTrying({ rows, columns, costs }: CostMatrix): readonly [number, number] {
  let best: readonly [number, number] = [0, 0];
  const visit = (row: number, used: ReadonlySet<number>, cost: number): void => {
    if (row === rows) {
      if (used.size > best[0] || (used.size === best[0] && cost < best[1])) best = [used.size, cost];
      return;
    }
    visit(row + 1, used, cost);
    for (let column = 0; column < columns; column++) {
      const more = costs[row * columns + column] as number;
      if (!used.has(column) && more !== Infinity) visit(row + 1, new Set([...used, column]), cost + more);
    }
  };
  visit(0, new Set(), 0);
  return best;
}

describe('the assignment', () => {
  it('pairs as many as can be, at the least cost, as exhaustive search does', () => {
    fc.assert(
      fc.property(matrixArbitrary(5, true), (matrix) => {
        expect(outcome(matrix, assign(matrix))).toEqual(byTrying(matrix));
      }),
      { numRuns: runs(5_000) },
    );
  });

  it('costs what a reference assignment costs on larger matrices', () => {
    fc.assert(
      fc.property(matrixArbitrary(60, false), (matrix) => {
        const { rows, columns, costs } = matrix;
        const lines = Array.from({ length: rows }, (_, row) => [...costs.slice(row * columns, (row + 1) * columns)]);
        const { rowAssignments } = linearSumAssignment(lines, { maximaze: false });
        expect(outcome(matrix, assign(matrix))).toEqual(outcome(matrix, rowAssignments));
      }),
      { numRuns: runs(500) },
    );
  });
});
