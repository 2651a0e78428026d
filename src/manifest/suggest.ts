import { getOrMake } from '../model/group-by.ts';

/** Most letters of a text for which another one is looked for, and most texts of one run: each is compared with all candidates. */
const longest = 100;
const mostHints = 20;

/** The candidate that a person most likely meant; null when none is near (`most`: how many letters may differ, a third by default). */
export function suggest(written: string, candidates: Iterable<string>, most?: number): string | null {
  const limit = most ?? Math.max(1, Math.floor(written.length / 3));
  const all = [...candidates];
  const longer = written.length < 4 ? [] : all.filter((candidate) => candidate.startsWith(`${written}_`));
  if (longer.length === 1) return longer[0] ?? null;
  let [nearest, near]: [string | null, number] = [null, limit];
  for (const text of written.length > longest ? [] : all) {
    if (Math.abs(text.length - written.length) > near) continue;
    const distance = editDistance(written.toLowerCase(), text.toLowerCase(), near);
    if (distance <= near) [nearest, near] = [text, distance - 1];
  }
  return nearest;
}

/** `did you mean X?` as the end of a hint, or the alternative sentence. */
export function didYouMean(written: string, candidates: Iterable<string>, otherwise: string): string {
  const nearest = suggest(written, candidates);
  return nearest === null ? otherwise : `Did you mean \`${nearest}\`?`;
}

/** `didYouMean` for names of which many may be unknown: it remembers its hints, and suggests for the first of them only. */
export function createHints(): typeof didYouMean {
  const hints = new Map<string, string>();
  return (written, candidates, otherwise) => {
    const key = `${otherwise} ${written}`;
    if (hints.size >= mostHints && !hints.has(key)) return otherwise;
    return getOrMake(hints, key, () => didYouMean(written, candidates, otherwise));
  };
}

/** Edits (insert, remove, replace, swap of neighbours) between two texts; any number above `most` where there are more. */
function editDistance(a: string, b: string, most: number): number {
  let previous: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const above = row;
    row = [i];
    let least = i;
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      let cost = Math.min((above[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (above[j - 1] ?? 0) + (same ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        cost = Math.min(cost, (previous[j - 2] ?? 0) + 1);
      }
      row.push(cost);
      least = Math.min(least, cost);
    }
    // No row below has less than the least of the two above it, and these differ by one at most.
    if (least > most + 1) break;
    previous = above;
  }
  return row[b.length] ?? 0;
}
