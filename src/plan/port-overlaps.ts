import type { PortRange } from '../model/port-range.ts';

/** Port ranges of which those that share a port with another are found in O(log n) each. */
export class PortOverlaps {
  /** Positions of the ranges, by lowest port. */
  readonly #order: Int32Array;
  readonly #lows: Int32Array;
  /** The highest port of the ranges below a node of a binary tree over `#order`; node 1 is the root, 2n and 2n + 1 are below n. */
  readonly #highest: Int32Array;
  readonly #leaves: number;

  constructor(ranges: readonly PortRange[]) {
    const at = (position: number): PortRange => ranges[position] as PortRange;
    this.#order = Int32Array.from(ranges.keys()).sort((a, b) => at(a).low - at(b).low || a - b);
    this.#lows = this.#order.map((position) => at(position).low);
    this.#leaves = 2 ** Math.ceil(Math.log2(Math.max(1, ranges.length)));
    this.#highest = new Int32Array(2 * this.#leaves).fill(-1);
    for (const [index, position] of this.#order.entries()) this.#highest[this.#leaves + index] = at(position).high;
    for (let node = this.#leaves - 1; node > 0; node--) {
      this.#highest[node] = Math.max(this.#highest[2 * node] as number, this.#highest[2 * node + 1] as number);
    }
  }

  /** Calls back with the position of each range that shares a port with the given one. */
  each(range: PortRange, visit: (position: number) => void): void {
    this.#search(1, { first: 0, size: this.#leaves }, range, visit);
  }

  #search(node: number, span: { first: number; size: number }, range: PortRange, visit: (at: number) => void): void {
    const { first, size } = span;
    if (first >= this.#order.length || (this.#lows[first] as number) > range.high) return;
    if ((this.#highest[node] as number) < range.low) return;
    if (size === 1) {
      visit(this.#order[first] as number);
      return;
    }
    const half = size / 2;
    this.#search(2 * node, { first, size: half }, range, visit);
    this.#search(2 * node + 1, { first: first + half, size: half }, range, visit);
  }
}
