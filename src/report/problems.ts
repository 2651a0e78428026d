import { escapeControls } from '../model/printable.ts';
import type { Place, Problem } from '../model/problem.ts';
import { createPaint, type Paint } from './paint.ts';
import { count, takeWorst } from './summary.ts';

/** Problems with place, excerpt, code, summary and hint. Errors first; after the first 200 the others are counted. */
export function renderProblems(problems: readonly Problem[], color: boolean): string {
  const paint = createPaint(color);
  const { lines, left } = takeProblems(problems, shown);
  const text = lines.map((problem) => `${problemText(problem, paint)}\n`);
  if (left !== '') text.push(`… ${left}; --output json has all of them\n`);
  return text.join('');
}

/** So many problems, errors first where they leave others out, and what that is. */
export function takeProblems(problems: readonly Problem[], most: number) {
  return takeWorst(problems, most, ({ severity }) => weight[severity], 'are errors');
}

/** More than this nobody reads, and a broken file can have a problem for every line. */
const shown = 200;
const weight = { error: 0, warning: 1, note: 2 } as const;

function problemText(problem: Problem, paint: Paint): string {
  const { severity, code, summary, hint, place, related } = problem;
  const where = place === undefined ? '' : `${paint('strong', formatPlace(place))} `;
  const lines = [`${where}${paint(severity, severity)} ${paint('faint', `[${code}]`)} ${sentence(summary)}`];
  if (place !== undefined && problem.excerpt !== undefined)
    for (const one of caret(place, problem.excerpt, paint)) lines.push(one);
  for (const other of related ?? []) lines.push(`    ${formatPlace(other.place)} ${sentence(other.note)}`);
  if (hint !== undefined) lines.push(`    ${paint('note', 'hint:')} ${sentence(hint)}`);
  return lines.join('\n');
}

/** `rules.yaml:3:7`, safe to print. */
export function formatPlace(place: Place): string {
  return place.line === 0 ? formatPath(place.file) : `${formatPath(place.file)}:${place.line}:${place.column}`;
}

/** `rules.yaml:3`: where a change comes from. */
export function formatLine(place: Place): string {
  return `${formatPath(place.file)}:${place.line}`;
}

/** A file below PATH as the repository names it, when PATH was relative: so annotations and readers of a comment find it. */
export function stripRoot(file: string, root: string | null): string {
  const folder = (root ?? '').replace(/^(?:\.\/+)+/, '').replace(/\/+$/, '');
  return root === null || root === '' || folder === '.' || (folder === '' && root.startsWith('.'))
    ? file
    : `${folder}/${file}`;
}

/** A path for people. It may begin a line, and `::` at the beginning is a command to the runner of GitHub. */
export function formatPath(path: string): string {
  const text = escapeControls(path);
  return text.startsWith('::') ? `./${text}` : text;
}

function sentence(text: string): string {
  return escapeControls(text.trim());
}

/** Columns of a manifest's line that are shown: with its number they fit a terminal of 80. */
const excerptWidth = 70;

/** The line and a caret under the column. Tabs become one space each, so that the caret stands where it should. */
function caret(place: Place, excerpt: string, paint: Paint): readonly string[] {
  const gutter = `${place.line}`.padStart(6);
  const before = escapeControls(excerpt.slice(0, place.column - 1).replaceAll('\t', ' '));
  const line = before + escapeControls(excerpt.slice(place.column - 1).replaceAll('\t', ' '));
  const cut = Math.max(0, Math.min(before.length - excerptWidth / 2, line.length - excerptWidth));
  const [left, right] = [cut === 0 ? '' : '…', cut + excerptWidth < line.length ? '…' : ''];
  // Half a character, which the cut leaves of a pair, is none.
  const inside = line.slice(cut + left.length, cut + excerptWidth - right.length).replaceAll(/\p{Cs}/gu, ' ');
  const shown = left + inside + right;
  return [
    `${paint('faint', `${gutter} |`)} ${shown}`,
    `${paint('faint', `${' '.repeat(6)} |`)} ${' '.repeat(before.length - cut)}${paint('error', '^')}`,
  ];
}

/** `1 error, 2 warnings`, for the end of an output. */
export function formatProblemCounts(problems: readonly Problem[]): string {
  const parts = (['error', 'warning', 'note'] as const).flatMap((severity) => {
    const number = problems.filter((problem) => problem.severity === severity).length;
    return number === 0 ? [] : [count(number, severity)];
  });
  return parts.length === 0 ? 'no problems' : parts.join(', ');
}
