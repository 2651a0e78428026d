import { findFirstPosition } from '../model/group-by.ts';
import type { PortRange } from '../model/port-range.ts';

/** The first ports of the pieces into which ranges (null: all ports) cut the ports from 0 to `end`, already cut at `starts`. */
export function cutPorts(starts: Iterable<number>, ranges: readonly (PortRange | null)[], end: number): Int32Array {
  const edges = [...starts];
  for (const range of ranges) if (range !== null) edges.push(range.low, range.high + 1);
  const sorted = Int32Array.from(edges).sort();
  let count = 0;
  for (const edge of sorted) {
    if (edge > end || (count > 0 && sorted[count - 1] === edge)) continue;
    sorted[count++] = edge;
  }
  return sorted.subarray(0, count);
}

/** Pieces of ports of which each is painted until it is done; then it is passed over, at next to no cost. */
export class Paint {
  readonly #edges: Int32Array;
  /** By piece: where to look for the next one that is not done, itself if it is not. */
  readonly #next: Int32Array;

  /** The pieces begin at the edges, which ascend. */
  constructor(edges: Int32Array) {
    this.#edges = edges;
    this.#next = Int32Array.from({ length: edges.length + 1 }, (_, piece) => piece);
  }

  /** Calls `paint` for each piece from port `low`, where one begins, to `high` that is not done; true makes it done. */
  each(low: number, high: number, paint: (piece: number) => boolean): void {
    let piece = this.#find(this.#pieceAt(low));
    while (piece < this.#edges.length && (this.#edges[piece] as number) <= high) {
      if (paint(piece)) this.#next[piece] = piece + 1;
      piece = this.#find(piece + 1);
    }
  }

  #find(piece: number): number {
    let found = piece;
    while (this.#next[found] !== found) found = this.#next[found] as number;
    for (let at = piece; at !== found; ) {
      const next = this.#next[at] as number;
      this.#next[at] = found;
      at = next;
    }
    return found;
  }

  #pieceAt(port: number): number {
    return findFirstPosition(this.#edges.length, (piece) => (this.#edges[piece] as number) >= port);
  }
}
