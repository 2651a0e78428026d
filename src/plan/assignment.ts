/** A dense matrix of costs, row by row. `Infinity` forbids a pair. */
export interface CostMatrix {
  readonly rows: number;
  readonly columns: number;
  readonly costs: Float64Array;
}

/**
 * The assignment of least total cost that pairs as many rows as possible, where unpaired rows are more expensive than any
 * pair. Returns the column of each row, -1 for an unpaired one. Costs are finite and not negative, or `Infinity`.
 *
 * Shortest augmenting paths with potentials, O(rows² · columns): rows are added one by one, each along the cheapest
 * alternating path. One virtual column a row, dearer than everything else together, stands for "unpaired".
 */
export function assign(matrix: CostMatrix): Int32Array {
  const { rows, columns, costs } = matrix;
  if (rows > columns) return invert(assign(transpose(matrix)), rows);
  const unpaired = unpairedCost(matrix);
  const width = columns + rows;
  const rowPotential = new Float64Array(rows + 1);
  const columnPotential = new Float64Array(width + 1);
  const rowOf = new Int32Array(width + 1);
  const previous = new Int32Array(width + 1);
  const distance = new Float64Array(width + 1);
  const visited = new Uint8Array(width + 1);
  for (let row = 1; row <= rows; row++) {
    rowOf[0] = row;
    distance.fill(Number.POSITIVE_INFINITY);
    visited.fill(0);
    let column = 0;
    do {
      visited[column] = 1;
      const current = rowOf[column] as number;
      const offset = (current - 1) * columns - 1;
      const potential = rowPotential[current] as number;
      let delta = Number.POSITIVE_INFINITY;
      let next = 0;
      for (let j = 1; j <= width; j++) {
        if (visited[j] === 1) continue;
        const cost = j <= columns ? (costs[offset + j] as number) : j - columns === current ? unpaired : Infinity;
        const reduced = cost - potential - (columnPotential[j] as number);
        if (reduced < (distance[j] as number)) {
          distance[j] = reduced;
          previous[j] = column;
        }
        if ((distance[j] as number) < delta) {
          delta = distance[j] as number;
          next = j;
        }
      }
      for (let j = 0; j <= width; j++) {
        if (visited[j] === 1) {
          rowPotential[rowOf[j] as number] = (rowPotential[rowOf[j] as number] as number) + delta;
          columnPotential[j] = (columnPotential[j] as number) - delta;
        } else distance[j] = (distance[j] as number) - delta;
      }
      column = next;
    } while (rowOf[column] !== 0);
    while (column !== 0) {
      const from = previous[column] as number;
      rowOf[column] = rowOf[from] as number;
      column = from;
    }
  }
  const assigned = new Int32Array(rows).fill(-1);
  for (let j = 1; j <= columns; j++) if (rowOf[j] !== 0) assigned[(rowOf[j] as number) - 1] = j - 1;
  return assigned;
}

/** More than any assignment's total, so that the number of pairs comes first. */
function unpairedCost({ rows, columns, costs }: CostMatrix): number {
  let highest = 0;
  for (const cost of costs) if (cost !== Infinity && cost > highest) highest = cost;
  return highest * Math.min(rows, columns) + 1;
}

function transpose({ rows, columns, costs }: CostMatrix): CostMatrix {
  const turned = new Float64Array(costs.length);
  for (let i = 0; i < rows; i++)
    for (let j = 0; j < columns; j++) turned[j * rows + i] = costs[i * columns + j] as number;
  return { rows: columns, columns: rows, costs: turned };
}

function invert(rowOfColumn: Int32Array, rows: number): Int32Array {
  const assigned = new Int32Array(rows).fill(-1);
  for (const [column, row] of rowOfColumn.entries()) if (row >= 0) assigned[row] = column;
  return assigned;
}
