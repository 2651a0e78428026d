import type { Ports } from '../../model/port-range.ts';
import { lastPort } from '../port-set.ts';

/**
 * For every port the two lowest keys. Position i holds from `starts[i]` to the port before `starts[i + 1]` (or 65535).
 * `none` stands for no key.
 */
export interface TwoBest {
  readonly starts: readonly number[];
  readonly best: readonly number[];
  readonly second: readonly number[];
}

/** No key at any port. */
export function noBest(none: number): TwoBest {
  return { starts: [0], best: [none], second: [none] };
}

/** The last port of position i. */
export function endOf({ starts }: TwoBest, i: number): number {
  return (starts[i + 1] ?? lastPort('tcp') + 1) - 1;
}

/** With one more key on the given ports. */
export function addKey(from: TwoBest, { low, high }: Ports, key: number): TwoBest {
  const starts: number[] = [];
  const best: number[] = [];
  const second: number[] = [];
  const put = (start: number, first: number, next: number): void => {
    starts.push(start);
    best.push(first);
    second.push(next);
  };
  for (let i = 0; i < from.starts.length; i++) {
    const start = from.starts[i] ?? 0;
    const end = endOf(from, i);
    const first = from.best[i] ?? key;
    const next = from.second[i] ?? key;
    if (end < low || start > high) {
      put(start, first, next);
      continue;
    }
    if (start < low) put(start, first, next);
    const middle = Math.max(start, low);
    if (key < first) put(middle, key, first);
    else put(middle, first, Math.min(key, next));
    if (end > high) put(high + 1, first, next);
  }
  return { starts, best, second };
}
