import type { PortRange } from '../../model/port-range.ts';
import { cutPorts, Paint } from '../port-pieces.ts';
import { lastPort } from '../port-set.ts';

/**
 * For every port the two lowest keys. Position i holds from `starts[i]` to the port before `starts[i + 1]` (or 65535).
 * `none` stands for no key.
 */
export interface TopTwo {
  readonly starts: Int32Array;
  readonly best: Int32Array;
  readonly second: Int32Array;
}

/** No key at any port. */
export function makeTopTwo(none: number): TopTwo {
  return { starts: Int32Array.of(0), best: Int32Array.of(none), second: Int32Array.of(none) };
}

/** The last port of position i. */
export function endOf({ starts }: TopTwo, i: number): number {
  return (starts[i + 1] ?? lastPort('tcp') + 1) - 1;
}

/** A key for some ports. */
export interface PortKey {
  readonly ports: PortRange;
  readonly key: number;
}

/**
 * With more keys, each other than all there are: the ports are cut at every edge, and each piece takes the two lowest of the new
 * keys that hold there, from the lowest on.
 */
export function addKeys(from: TopTwo, added: readonly PortKey[]): TopTwo {
  const starts = cutPorts(
    from.starts,
    added.map(({ ports }) => ports),
    lastPort('tcp'),
  );
  const best = new Int32Array(starts.length);
  const second = new Int32Array(starts.length);
  let at = 0;
  for (let piece = 0; piece < starts.length; piece++) {
    while ((from.starts[at + 1] ?? Number.POSITIVE_INFINITY) <= (starts[piece] as number)) at++;
    best[piece] = from.best[at] as number;
    second[piece] = from.second[at] as number;
  }
  const taken = new Uint8Array(starts.length);
  const paint = new Paint(starts);
  for (const { ports, key } of added.toSorted((a, b) => a.key - b.key)) {
    paint.each(ports.low, ports.high, (piece) => {
      const first = best[piece] as number;
      if (key < first) [best[piece], second[piece]] = [key, first];
      else second[piece] = Math.min(key, second[piece] as number);
      taken[piece] = (taken[piece] as number) + 1;
      return taken[piece] === 2;
    });
  }
  return { starts, best, second };
}

/** The two lowest keys at a port. */
export function keysAt({ starts, best, second }: TopTwo, port: number): readonly [number, number] {
  let [low, high] = [0, starts.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((starts[middle] as number) <= port) low = middle + 1;
    else high = middle;
  }
  return [best[low - 1] as number, second[low - 1] as number];
}
