import { html, raw } from 'hono/html';
import { escapeControls, shortenText } from '../model/printable.ts';
import type { Plan } from '../plan/plan.ts';
import type { TrafficPart } from './page.ts';
import { measureLongest } from './paint.ts';

export type Markup = ReturnType<typeof html> | string;

/** Rows and columns of the matrix, and bars of the time line, at most: more is no picture any more. */
const most = { rows: 40, columns: 16, bars: 60 };

/** People against traffic: a filled triangle where the plan opens, a hollow circle where it closes. Empty where there is nothing to see. */
export function drawTraffic({ lines }: TrafficPart): Markup {
  const rows = [...new Set(lines.map(({ who }) => who))].slice(0, most.rows);
  const columns = [...new Set(lines.map(({ what }) => what))].slice(0, most.columns);
  if (rows.length === 0) return '';
  const left = 8 + Math.min(40, measureLongest(rows)) * 7.4;
  const top = 16 + columns.length * 18;
  const size = { width: left + columns.length * 28 + 360, height: top + rows.length * 26 + 10 };
  const heads = columns.map((what, index) => {
    const x = left + index * 28 + 14;
    const y = 14 + index * 18;
    const line = html`<line class="grid" x1="${x}" y1="${y + 4}" x2="${x}" y2="${size.height - 8}"/>`;
    return html`${line}<text x="${x - 4}" y="${y}">${formatShort(what, 46)}</text>`;
  });
  const names = rows.map((who, index) => html`<text x="4" y="${top + index * 26 + 18}">${formatShort(who, 40)}</text>`);
  const cells = lines.flatMap(({ label, who, what }) => {
    const [row, column] = [rows.indexOf(who), columns.indexOf(what)];
    if (row < 0 || column < 0) return [];
    const [x, y] = [left + column * 28 + 14, top + row * 26 + 13];
    return label === 'opens'
      ? [html`<path class="opened" d="M${x} ${y - 8}l8 15h-16z"><title>opens</title></path>`]
      : [html`<circle class="closed" cx="${x}" cy="${y}" r="7"><title>closes</title></circle>`];
  });
  return frame('Who gains (triangle) and who loses (circle) which traffic', size, [...heads, ...names, ...cells]);
}

/** The steps in order, and a bar for each time in which something is open or cut off. Empty without exposure. */
export function drawExposure({ steps, exposure }: Plan): Markup {
  if (exposure.length === 0) return '';
  const position = new Map(steps.map(({ id }, index) => [id, index]));
  const bars = exposure.slice(0, most.bars);
  const scale = 640 / Math.max(1, steps.length);
  const size = { width: 760, height: 34 + bars.length * 16 };
  const rows = bars.map(({ direction, fromStep, toStep, expectedMs }, index) => {
    const from = (position.get(fromStep) ?? 0) * scale + 8;
    const to = ((position.get(toStep) ?? 0) + 1) * scale + 8;
    const y = 28 + index * 16;
    const kind = direction === 'opened' ? 'opened' : 'closed';
    const title = `${direction === 'opened' ? 'open' : 'cut off'} for about ${Math.round(expectedMs)} ms`;
    const shape = raw(`x="${from.toFixed(1)}" y="${y}" width="${Math.max(4, to - from).toFixed(1)}" height="10"`);
    return html`<rect class="${kind}" ${shape}><title>${title}</title></rect>`;
  });
  const words = html`<text x="8" y="14">first of ${steps.length} requests</text><text x="600" y="14">last</text>`;
  const axis = html`<line class="grid" x1="8" y1="20" x2="648" y2="20"/>${words}`;
  const label = 'When something is open (filled) or cut off (hollow), from the first request to the last';
  return frame(label, size, [axis, ...rows]);
}

function frame(label: string, size: Readonly<Record<'width' | 'height', number>>, parts: readonly Markup[]): Markup {
  const [width, height] = [Math.ceil(size.width), Math.ceil(size.height)];
  // On a narrow screen it is scrolled, by keyboard too, instead of shrunk until nobody can read it.
  return html`<div class="picture" tabindex="0"><svg role="img" aria-label="${label}" viewBox="0 0 ${width} ${height}" width="${width}">${parts}</svg></div>`;
}

function formatShort(text: string, most: number): string {
  return escapeControls(shortenText(text, most));
}
