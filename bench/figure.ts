/** What we took, and what any tool needs at least for the same: a limit in ms counts what is over that, a ratio is of the two. */
export interface Figure {
  readonly ours: number;
  readonly floor: number;
}

/** One line of `npm run bench`: a figure with its limit. */
export interface FigureBench {
  readonly name: string;
  readonly unit: 'ms' | 'ratio' | 'MB';
  /** Null: shown, and never missed. */
  readonly limit: number | null;
  readonly measure: () => number | Figure | Promise<number | Figure>;
}

/** Measures once for several figures. */
export function once<T>(measure: () => T): () => T {
  let made: { readonly value: T } | null = null;
  return () => {
    made ??= { value: measure() };
    return made.value;
  };
}

/** The median of values; NaN of none. */
export function medianOf(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}
