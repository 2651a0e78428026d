import type { Problem } from '../model/problem.ts';
import type { Suppression } from './manifest.ts';

const comment = /(?:^|\s)#\s*reconcile-ignore(-file)?:[ \t]*([a-z0-9-]*)[ \t]*(.*)$/;

/**
 * Finds `# reconcile-ignore: CODE reason` (this line, or the next line with content when the comment stands alone) and
 * `# reconcile-ignore-file: CODE reason`. One without a code or a reason is a problem.
 */
export function findSuppressions(
  file: string,
  text: string,
): { readonly suppressions: readonly Suppression[]; readonly problems: readonly Problem[] } {
  const suppressions: Suppression[] = [];
  const problems: Problem[] = [];
  if (!text.includes('reconcile-ignore')) return { suppressions, problems };
  const lines = text.split(/\r?\n/);
  for (const [index, content] of lines.entries()) {
    const match = comment.exec(content);
    if (match === null) continue;
    const [, wholeFile, code = '', reason = ''] = match;
    if (code === '' || reason.trim() === '') {
      problems.push({
        code: 'ignore-without-reason',
        severity: 'error',
        summary: 'This comment switches a finding off without saying which, or why.',
        hint: 'Write `# reconcile-ignore: CODE reason`.',
        place: { file, line: index + 1, column: content.indexOf('#') + 1 },
      });
      continue;
    }
    const line = wholeFile !== undefined ? null : coveredLine(lines, index);
    suppressions.push({ code, reason: reason.trim(), file, line });
  }
  return { suppressions, problems };
}

/** The comment's own line; when the comment stands alone, the next line that is neither blank nor a comment. */
function coveredLine(lines: readonly string[], index: number): number {
  if (!/^\s*#/.test(lines[index] ?? '')) return index + 1;
  for (let next = index + 1; next < lines.length; next++) {
    if (!/^\s*(?:#|$)/.test(lines[next] ?? '')) return next + 1;
  }
  return index + 1;
}
