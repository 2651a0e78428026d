import type { Suppression } from '../manifest/manifest.ts';
import type { Problem } from '../model/problem.ts';

/** Leaves out the warnings and notes that a comment in the manifests switches off. Errors always stay. */
export function applySuppressions(
  problems: readonly Problem[],
  suppressions: readonly Suppression[],
): readonly Problem[] {
  if (suppressions.length === 0) return problems;
  const covered = new Set(suppressions.map(({ file, code, line }) => keyOf(file, code, line)));
  return problems.filter(
    ({ severity, code, place }) =>
      severity === 'error' ||
      place === undefined ||
      !(covered.has(keyOf(place.file, code, null)) || covered.has(keyOf(place.file, code, place.line))),
  );
}

function keyOf(file: string, code: string, line: number | null): string {
  return `${file}\n${code}\n${line ?? 'file'}`;
}
