import { stripVTControlCharacters, styleText } from 'node:util';

/** What a piece of text is; its colour follows. */
export type Tone = 'risk' | 'plain' | 'error' | 'warning' | 'note' | 'strong' | 'faint';

export type Paint = (tone: Tone, text: string) => string;

const styles = {
  // Traffic that opens is what must not be missed, on light and on dark terminals; what closes is calm.
  risk: ['bold', 'red'],
  plain: [],
  // Red alone is 3.6:1 on black.
  error: ['bold', 'red'],
  // Yellow, cyan and green can hardly be read on white: 1.7:1, 2:1 and 2.1:1 in the colours of xterm.
  warning: ['magenta'],
  note: [],
  strong: ['bold'],
  faint: ['dim'],
} as const satisfies Readonly<Record<Tone, readonly string[]>>;

/** A painter; without colour it returns its text. Whether to colour is decided where the terminal is known. */
export function createPaint(color: boolean): Paint {
  if (!color) return (_tone, text) => text;
  return (tone, text) =>
    styles[tone].length === 0 ? text : styleText([...styles[tone]], text, { validateStream: false });
}

export function measureLongest(texts: readonly string[]): number {
  return texts.reduce((most, { length }) => Math.max(most, length), 0);
}

/** Those that say something, with an empty line between them. */
export function joinSections(sections: readonly string[]): string {
  return `${sections.filter(Boolean).join('\n\n')}\n`;
}

/** Lines of at most `width` columns; what goes on stands under the words of its line. */
export function wrapText(text: string, width: number | undefined): string {
  if (width === undefined) return text;
  const columns = Math.max(40, width);
  return text
    .split('\n')
    .map((line) => wrapLine(line, columns))
    .join('\n');
}

function wrapLine(line: string, width: number): string {
  const visible = (part: string): number => stripVTControlCharacters(part).length;
  const plain = stripVTControlCharacters(line);
  // A line of a manifest, and the caret below it, are cut where they are shown.
  if (plain.length <= width || /^ +\d* \| /.test(plain)) return line;
  const [, indent = '', column = ''] = /^(\s*(?:[-+±~·=✗] )?)(\S+\s{2,})?/.exec(plain) ?? [];
  const hang = ' '.repeat(Math.min(indent.length + (column.length || 2), 20));
  const lines: string[] = [];
  let current = '';
  // `was rules.yaml:9` stays in one piece.
  for (const word of line.split(/(?<=\S)(?<!was)(?=\s)/)) {
    if (current !== '' && visible(current) + visible(word) > width) {
      lines.push(current);
      current = `${hang}${word.trimStart()}`;
    } else current += word;
  }
  return [...lines, current].join('\n');
}
