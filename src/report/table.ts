import { escapeProse, fitComment, listFirst } from './markdown.ts';
import { measureLongest } from './paint.ts';

/** Rows of cells, the first row being the headings. */
export type Table = readonly (readonly string[])[];

/** An answer that is a table: in words, in cells, and exactly for machines. */
export interface TableAnswer {
  readonly title: string;
  readonly text: (display: { readonly width?: number | undefined }) => string;
  readonly table: () => Table;
  readonly members: () => Readonly<Record<string, unknown>>;
}

/** A table for people: columns under each other; what stands beside a cell too long for one goes on below it. */
export function renderTableText(table: Table, columns = Number.POSITIVE_INFINITY): string {
  const widths = (table[0] ?? []).map((_, column) =>
    Math.min(60, measureLongest(table.map((row) => row[column] ?? ''))),
  );
  const starts = widths.map((_, column) => widths.slice(0, column + 1).reduce((sum, width) => sum + width + 2, -2));
  const pad = (cell: string, column: number): string => {
    const width = widths[column] ?? 0;
    return cell.length > width ? `${cell}\n${' '.repeat(starts[column] ?? 0)}` : cell.padEnd(width);
  };
  const text = table.map((row) => `${row.map(pad).join('  ').trimEnd()}\n`).join('');
  return measureLongest(text.split('\n')) > columns ? renderRecords(table) : text;
}

/** Each row below its first cell, for a terminal that the table does not fit. */
function renderRecords([head = [], ...rows]: Table): string {
  const width = measureLongest(head);
  const records = rows.map(([first, ...cells]) =>
    [first, ...cells.map((cell, index) => `  ${(head[index + 1] ?? '').padEnd(width)}  ${cell}`)].join('\n'),
  );
  return `${records.join('\n')}\n`;
}

/** Never longer than a comment may be. */
export function renderTableMarkdown([head = [], ...rest]: Table, title?: string): string {
  const row = (cells: readonly string[]): string => `| ${cells.map((cell) => escapeProse(cell)).join(' | ')} |`;
  const above = title === undefined ? [] : [`### ${title}`, ''];
  const heads = [row(head), `|${head.map(() => '---|').join('')}`];
  const rows = rest.map(row);
  return fitComment((limit) => `${[...above, ...heads, ...listFirst(rows, limit)].join('\n')}\n`);
}

/** RFC 4180. A cell that a spreadsheet would take for a formula begins with an apostrophe. */
export function renderTableCsv(table: Table): string {
  const cell = (text: string): string => {
    const safe = /^[=+\-@\t]/.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return table.map((row) => `${row.map(cell).join(',')}\r\n`).join('');
}
