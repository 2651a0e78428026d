/** The candidate that a person most likely meant; null when none is near (`most`: how many letters may differ, a third by default). */
export function suggest(written: string, candidates: Iterable<string>, most?: number): string | null {
  const limit = most ?? Math.max(1, Math.floor(written.length / 3));
  const all = [...candidates];
  const longer = written.length < 4 ? [] : all.filter((candidate) => candidate.startsWith(`${written}_`));
  if (longer.length === 1) return longer[0] ?? null;
  const [nearest] = all
    .filter(({ length }) => Math.abs(length - written.length) <= limit)
    .map((text) => ({ text, distance: editDistance(written.toLowerCase(), text.toLowerCase()) }))
    .filter(({ distance }) => distance <= limit)
    .sort((a, b) => a.distance - b.distance);
  return nearest?.text ?? null;
}

/** `did you mean X?` as the end of a hint, or the alternative sentence. */
export function didYouMean(written: string, candidates: Iterable<string>, otherwise: string): string {
  const nearest = suggest(written, candidates);
  return nearest === null ? otherwise : `Did you mean \`${nearest}\`?`;
}

/** Edits (insert, remove, replace, swap of neighbours) between two texts. */
function editDistance(a: string, b: string): number {
  let previous: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const above = row;
    row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      let cost = Math.min((above[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (above[j - 1] ?? 0) + (same ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        cost = Math.min(cost, (previous[j - 2] ?? 0) + 1);
      }
      row.push(cost);
    }
    previous = above;
  }
  return row[b.length] ?? 0;
}
