/** Runs one at a time; whoever asks while one is under way gets the next, which starts after the question. */
export function shareRuns<A extends readonly unknown[], T>(
  run: (...request: A) => Promise<T>,
): (...request: A) => Promise<T> {
  let current: Promise<T> | null = null;
  let next: Promise<T> | null = null;
  const start = (request: A): Promise<T> => {
    next = null;
    const mine = run(...request).finally(() => {
      if (current === mine) current = null;
    });
    current = mine;
    return mine;
  };
  return (...request) => {
    if (current === null) return start(request);
    const again = (): Promise<T> => start(request);
    next ??= current.then(again, again);
    return next;
  };
}
