import { stripVTControlCharacters } from 'node:util';
import { expect, it } from 'vitest';
import type { Problem } from '../../src/model/problem.ts';
import { wrapText } from '../../src/report/paint.ts';
import { renderProblems } from '../../src/report/problems.ts';

const note = (line: number): Problem => ({
  code: 'host-bits',
  severity: 'note',
  summary: 'A note.',
  place: { file: 'a.yaml', line, column: 1 },
});

it('shows the errors first and counts the rest, when there are more problems than anybody reads', () => {
  const error: Problem = { ...note(9999), code: 'collision', severity: 'error' };
  const lines = renderProblems([...Array.from({ length: 1000 }, (_, line) => note(line)), error], false)
    .trimEnd()
    .split('\n');
  expect(lines[0]).toContain('a.yaml:9999:1 error [collision]');
  expect(lines.at(-1)).toBe('… and 801 more; --output json has all of them');
  expect(renderProblems(Array(300).fill(error), false)).toMatch(/… and 100 more, 100 of which are errors;/);
});

it('keeps the order of places where all problems are shown', () => {
  const error: Problem = { ...note(2), code: 'collision', severity: 'error' };
  expect(renderProblems([note(1), error], false)).toMatch(/host-bits[\s\S]*collision/);
});

it.each([1, 60, 104, 150])(
  'on a narrow terminal a long line of a manifest keeps its caret below column %i',
  (column) => {
    const excerpt = `${'abcdefghij'.repeat(15)}`;
    const problem: Problem = { ...note(12), place: { file: 'a.yaml', line: 12, column }, excerpt };
    const pointedAt = (text: string): string | undefined => {
      const [, shown = '', caret = ''] = text.split('\n');
      return shown.replace('…', ' ')[caret.indexOf('^')];
    };
    for (const color of [false, true]) {
      const text = stripVTControlCharacters(wrapText(renderProblems([problem], color), 80));
      expect(pointedAt(text)).toBe(excerpt[column - 1]);
      expect(Math.max(...text.split('\n').map((line) => line.length))).toBeLessThanOrEqual(80);
    }
  },
);

it('cuts a long line of a manifest beside a character, never through it', () => {
  const excerpt = '😀'.repeat(60);
  for (const column of [1, 119]) {
    const problem: Problem = { ...note(12), place: { file: 'a.yaml', line: 12, column }, excerpt };
    expect(renderProblems([problem], false)).not.toMatch(/\p{Cs}/u);
  }
});
