import type { Suppression } from '../manifest/manifest.ts';
import type { Problem } from '../model/problem.ts';

/** Leaves out the warnings and notes that a comment in the manifests switches off. Errors always stay. */
export function applySuppressions(
  problems: readonly Problem[],
  suppressions: readonly Suppression[],
): readonly Problem[] {
  if (suppressions.length === 0) return problems;
  return problems.filter(
    (problem) => problem.severity === 'error' || !suppressions.some((one) => covers(one, problem)),
  );
}

function covers(suppression: Suppression, { code, place }: Problem): boolean {
  if (suppression.code !== code || suppression.file !== place?.file) return false;
  return suppression.line === null || suppression.line === place.line;
}
