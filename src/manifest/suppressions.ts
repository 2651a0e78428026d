import { makeError, type Problem } from '../model/problem.ts';
import type { Suppression } from './manifest.ts';
import { mostProblems } from './read-tokens.ts';

const comment = /(?:^|\s)#\s*reconcile-ignore(-file)?:[ \t]*([a-z0-9-]*)[ \t]*(.*)$/;

/** Finds `# reconcile-ignore: CODE reason` (its line, or the next) and `# reconcile-ignore-file:`; both need code and reason. */
export function findSuppressions(file: string, text: string) {
  const suppressions: Suppression[] = [];
  const problems: Problem[] = [];
  if (!text.includes('reconcile-ignore')) return { suppressions, problems };
  const lines = text.split(/\r?\n/);
  const covered = coveredLines(lines);
  for (const [index, content] of lines.entries()) {
    const match = comment.exec(content);
    if (match === null) continue;
    const [, wholeFile, code = '', reason = ''] = match;
    if (code === '' || reason.trim() === '') {
      if (problems.length > mostProblems) break;
      const summary = 'This comment switches a finding off without saying which, or why.';
      const hint = 'Write `# reconcile-ignore: CODE reason`.';
      const place = { file, line: index + 1, column: content.indexOf('#') + 1 };
      problems.push(makeError('ignore-without-reason', summary, hint, place));
      continue;
    }
    const line = wholeFile !== undefined ? null : (covered[index] ?? index + 1);
    suppressions.push({ code, reason: reason.trim(), file, line });
  }
  return { suppressions, problems };
}

/** For each line the one that a comment on it covers: its own; when the comment stands alone, the next with content. */
function coveredLines(lines: readonly string[]): readonly number[] {
  const covered: number[] = [];
  let content: number | null = null;
  for (let index = lines.length - 1; index >= 0; index--) {
    if (!/^\s*(?:#|$)/.test(lines[index] ?? '')) content = index + 1;
    covered[index] = content ?? index + 1;
  }
  return covered;
}

/** Leaves out the warnings and notes that a comment in the manifests switches off. Errors always stay. */
export function applySuppressions(problems: readonly Problem[], suppressions: readonly Suppression[]) {
  if (suppressions.length === 0) return problems;
  const covered = new Set(suppressions.map(({ file, code, line }) => keyOf(file, code, line)));
  const isCovered = ({ code, place }: Problem): boolean =>
    place !== undefined && [null, place.line].some((line) => covered.has(keyOf(place.file, code, line)));
  return problems.filter((problem) => problem.severity === 'error' || !isCovered(problem));
}

function keyOf(file: string, code: string, line: number | null): string {
  return `${file}\n${code}\n${line ?? 'file'}`;
}
