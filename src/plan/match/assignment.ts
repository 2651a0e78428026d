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
 * alternating path, which ends at a free column or leaves one row unpaired, dearer than everything else together.
 */
export function assign(matrix: CostMatrix): Int32Array {
  if (matrix.rows > matrix.columns) return invert(assign(transpose(matrix)), matrix.rows);
  const search = new Search(matrix);
  for (let row = 0; row < matrix.rows; row++) search.add(row);
  return search.columnOf;
}

class Search {
  readonly columnOf: Int32Array;
  readonly #matrix: CostMatrix;
  readonly #unpaired: number;
  readonly #rowOf: Int32Array;
  readonly #rowPotential: Float64Array;
  readonly #columnPotential: Float64Array;
  /** By column: how far it is from the row that is added, and from which row it was reached. */
  readonly #distance: Float64Array;
  readonly #previous: Int32Array;
  /** The columns not visited yet come first, ascending. */
  readonly #open: Int32Array;

  constructor(matrix: CostMatrix) {
    const { rows, columns } = matrix;
    this.#matrix = matrix;
    this.#unpaired = unpairedCost(matrix);
    this.columnOf = new Int32Array(rows).fill(-1);
    this.#rowOf = new Int32Array(columns).fill(-1);
    this.#rowPotential = new Float64Array(rows);
    this.#columnPotential = new Float64Array(columns);
    this.#distance = new Float64Array(columns);
    this.#previous = new Int32Array(columns);
    this.#open = new Int32Array(columns);
  }

  /** Takes one more row into the assignment. */
  add(added: number): void {
    const open = this.#open;
    for (let column = 0; column < open.length; column++) open[column] = column;
    this.#distance.fill(Number.POSITIVE_INFINITY);
    const visited: number[] = [];
    let alone = { row: -1, distance: Number.POSITIVE_INFINITY };
    for (let [row, reached] = [added, 0]; ; ) {
      const unpaired = reached + this.#unpaired - (this.#rowPotential[row] as number);
      if (unpaired < alone.distance || (unpaired === alone.distance && row < alone.row))
        alone = { row, distance: unpaired };
      const place = this.#relax(row, reached, open.length - visited.length);
      const column = open[place] as number;
      if (place < 0 || alone.distance < (this.#distance[column] as number)) {
        this.#settle(added, visited, alone.distance);
        this.#leave(alone.row, added);
        return;
      }
      reached = this.#distance[column] as number;
      row = this.#rowOf[column] as number;
      if (row < 0) {
        this.#settle(added, visited, reached);
        this.#turn(column, added);
        return;
      }
      visited.push(column);
      open.copyWithin(place, place + 1, open.length - visited.length + 1);
    }
  }

  /** Looks along the row for shorter ways to the open columns; returns the place of the nearest, -1 if none can be reached. */
  #relax(row: number, reached: number, count: number): number {
    const { columns, costs } = this.#matrix;
    const [open, distance, previous, potential] = [this.#open, this.#distance, this.#previous, this.#columnPotential];
    const offset = row * columns;
    const base = reached - (this.#rowPotential[row] as number);
    let nearest = -1;
    let least = Number.POSITIVE_INFINITY;
    for (let place = 0; place < count; place++) {
      const column = open[place] as number;
      const way = (costs[offset + column] as number) + base - (potential[column] as number);
      let shortest = distance[column] as number;
      if (way < shortest) {
        shortest = distance[column] = way;
        previous[column] = row;
      }
      if (shortest < least) {
        least = shortest;
        nearest = place;
      }
    }
    return nearest;
  }

  #settle(added: number, visited: readonly number[], total: number): void {
    this.#rowPotential[added] = (this.#rowPotential[added] as number) + total;
    for (const column of visited) {
      const gain = total - (this.#distance[column] as number);
      const row = this.#rowOf[column] as number;
      this.#rowPotential[row] = (this.#rowPotential[row] as number) + gain;
      this.#columnPotential[column] = (this.#columnPotential[column] as number) - gain;
    }
  }

  /** Every row on the way to the column takes the column after it. */
  #turn(column: number, added: number): void {
    for (let at = column; ; ) {
      const row = this.#previous[at] as number;
      const before = this.columnOf[row] as number;
      this.columnOf[row] = at;
      this.#rowOf[at] = row;
      if (row === added) return;
      at = before;
    }
  }

  /** The row stays without a column; those on the way to it move on. */
  #leave(row: number, added: number): void {
    if (row === added) return;
    const column = this.columnOf[row] as number;
    this.columnOf[row] = -1;
    this.#turn(column, added);
  }
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
